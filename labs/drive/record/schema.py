"""The version of what is written, and the refusal of any other."""

from __future__ import annotations

from pathlib import Path

from labs.errors import BadInput

VERSION = 1
RUN_SCHEMA = Path(__file__).with_name("run.schema.json")
STUDY_SCHEMA = Path(__file__).with_name("study.schema.json")


def check_version(found: object, what: str) -> None:
    """Refuse another schema than `VERSION`, with BadInput naming both; `what` names the file."""
    if type(found) is int and found == VERSION:
        return
    said = f"schema {found}" if type(found) is int else "no schema version"
    raise BadInput(
        f"{what} has {said}, and this version of labs reads schema {VERSION}; read it "
        "with the version that wrote it, or make the run again with --fresh"
    )
