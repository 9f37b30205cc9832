"""Validate content against a JSON Schema, and describe the error.

jsonschema-rs validates in a hundredth of the time of jsonschema, whose import alone takes a second.
The messages need the error objects of jsonschema, so it is imported only for invalid content.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labs.drive.record.stored_files import parse

if TYPE_CHECKING:
    import jsonschema_rs
    from jsonschema.exceptions import ValidationError


def objection(schema: Path, content: object) -> ValidationError | None:
    """The most relevant error in `content`; None if it is valid."""
    compiled = _compiled(schema)
    try:
        if compiled.is_valid(content):
            return None
    except ValueError:  # a type or a key that JSON does not have: jsonschema names it
        pass
    from jsonschema import Draft202012Validator  # noqa: PLC0415
    from jsonschema.exceptions import best_match  # noqa: PLC0415

    errors = Draft202012Validator(_content(schema)).iter_errors(content)
    worst: ValidationError | None = best_match(errors)
    return worst


@cache
def _compiled(schema: Path) -> jsonschema_rs.Draft202012Validator:
    import jsonschema_rs  # noqa: PLC0415  making runs needs only Python

    return jsonschema_rs.Draft202012Validator(_content(schema))


@cache
def _content(schema: Path) -> dict[str, Any]:
    found = parse(schema.read_bytes())
    assert isinstance(found, dict)
    return found
