"""JSON of runs and studies: held to its schema, and older versions in the form of today."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labs.drive.record.stored_files import STUDY_SCHEMA, parse
from labs.drive.record.study_file import StudyFile, read_study
from labs.drive.units import KIB
from labs.errors import Damaged

if TYPE_CHECKING:
    import jsonschema_rs
    from jsonschema import Draft202012Validator

FIXED_BURST_MBIT, FIXED_BURST_BYTES = 1000, 20 * KIB
OK, NOT_OK = "as asked", "not as asked: "
PARAMETERS = {"at": "shaped_at", "width_pct": "ci_width_pct"}
"""What parameters were called before, and what they are called now."""


@cache
def _compiled(schema: Path) -> jsonschema_rs.Draft202012Validator:
    """The validator that only tells whether a content fits, in a hundredth of the other's time."""
    import jsonschema_rs  # noqa: PLC0415  making runs needs only Python

    return jsonschema_rs.Draft202012Validator(parse(schema.read_bytes()))


@cache
def _explaining(schema: Path) -> Draft202012Validator:
    """The validator that tells what does not fit, and where."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415

    found = parse(schema.read_bytes())
    assert isinstance(found, dict)
    return Draft202012Validator(found)


def held_to(schema: Path, content: object, file: Path) -> dict[str, Any]:
    """Return `content`, read from `file`, once it fits the schema; else raise Damaged."""
    if _compiled(schema).is_valid(content):
        assert isinstance(content, dict)
        return content
    from jsonschema.exceptions import best_match  # noqa: PLC0415

    error = best_match(_explaining(schema).iter_errors(content))
    if error is None:
        raise Damaged(f"{file}: it does not fit {schema.name}, so make it again")
    where = ".".join(str(part) for part in error.absolute_path) or "the whole"
    said = " ".join(error.message.split())
    if len(said) > 160:
        said = said[:157] + "..."
    raise Damaged(f"{file}: {where}: {said}; it does not fit {schema.name}, so make it again")


def open_study(path: Path) -> StudyFile:
    """Read a study file and hold it to its schema."""
    study = read_study(path)
    held_to(STUDY_SCHEMA, study.as_json(), path)
    return replace(study, parameters=upgraded_parameters(study.parameters))


def upgraded(said: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a run.json of schema 1 as schema 2 has it."""
    condition = said["inputs"]["condition"]
    report = said["link"]
    verdict = report["verdict"]
    problems = [] if verdict == OK else verdict.removeprefix(NOT_OK).split("; ")
    return {
        **said,
        "schema": 2,
        "inputs": {
            **said["inputs"],
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
