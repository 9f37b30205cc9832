"""JSON of runs and studies: held to its schema, and older versions in the form of today."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from labs.drive.record.stored_files import STUDY_SCHEMA
from labs.drive.record.study_file import StudyFile, read_study
from labs.errors import BadInput, Damaged
from labs.guest.units import KIB
from labs.read.json_schema import objection

FIXED_BURST_MBIT, FIXED_BURST_BYTES = 1000, 20 * KIB
OK, NOT_OK = "as asked", "not as asked: "
PARAMETERS = {"at": "shaped_at", "width_pct": "ci_width_pct"}
"""What parameters were called before, and what they are called now."""


def held_to(schema: Path, content: object, file: Path) -> dict[str, Any]:
    """Return `content`, read from `file`, once it fits the schema; else raise Damaged."""
    error = objection(schema, content)
    if error is None:
        assert isinstance(content, dict)
        return content
    where = ".".join(str(part) for part in error.absolute_path) or "the whole"
    message = " ".join(error.message.split())
    if len(message) > 160:
        message = message[:157] + "..."
    raise Damaged(f"{file}: {where}: {message}; it does not fit {schema.name}, so make it again")


def open_study(path: Path) -> StudyFile:
    """Read a study file and hold it to its schema. BadInput for a file of another kind."""
    if path.suffix != ".json":
        raise BadInput(
            f"{path} contains no runs. Name a bundle, a run, a folder given to --into, a study "
            "file (.json) or a packed file"
        )
    study = read_study(path)
    held_to(STUDY_SCHEMA, study.as_json(), path)
    return replace(study, parameters=upgraded_parameters(study.parameters))


def upgraded(record: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a run.json of schema 1 as schema 2 has it."""
    condition = record["inputs"]["condition"]
    report = record["link"]
    verdict = report["verdict"]
    problems = [] if verdict == OK else verdict.removeprefix(NOT_OK).split("; ")
    return {
        **record,
        "schema": 2,
        "inputs": {
            **record["inputs"],
            "schema": 2,
            "condition": {**condition, "link": _link(condition["link"])},
        },
        "link": {
            "asked": _link(report["asked"]),
            "measured": report["measured"],
            "ok": not problems,
            "problems": problems,
        },
    }


def _link(link: Mapping[str, Any]) -> dict[str, Any]:
    """`at` is `shaped_at` now. The burst was not kept: it was a fixed one at 1000 Mbit/s alone."""
    renamed = {("shaped_at" if name == "at" else name): value for name, value in link.items()}
    fixed = link["rate_mbit"] == FIXED_BURST_MBIT
    return {**renamed, "burst_bytes": FIXED_BURST_BYTES if fixed else None}


def upgraded_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a study file by the names that they have today."""
    return {PARAMETERS.get(name, name): value for name, value in parameters.items()}
