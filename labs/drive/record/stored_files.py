"""Stored files, read back: strict JSON, and the schema versions that can be read."""

from __future__ import annotations

import json
from pathlib import Path

from labs.errors import BadInput

VERSION = 2
"""Of run.json and of the inputs in it."""
STUDY_VERSION = SEAL_VERSION = 1
RUN_SCHEMA = Path(__file__).with_name("run.schema.json")
RUN_SCHEMAS = {1: RUN_SCHEMA.with_name("run.schema-1.json"), VERSION: RUN_SCHEMA}
"""The JSON Schema of every version of run.json that can be read."""
STUDY_SCHEMA = Path(__file__).with_name("study.schema.json")


def check_version(found: object, what: str, *readable: int) -> int:
    """The schema version, if it is one of the readable; else BadInput. `what` names the file."""
    if type(found) is int and found in readable:
        return found
    said = f"schema {found}" if type(found) is int else "no schema version"
    raise BadInput(
        f"{what} has {said}, and this version of labs reads schema "
        f"{' and '.join(map(str, readable))}; read it with the version that wrote it, or repeat "
        "the run with --fresh"
    )


def parse(text: bytes) -> object:
    """Read JSON strictly: ValueError also for NaN, infinities, and a key given twice."""
    return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique)


def _refuse_constant(word: str) -> object:
    raise ValueError(f"{word} is not a JSON number")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is given twice")
    return found
