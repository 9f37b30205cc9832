"""Validate content against a JSON Schema, and describe the error.

jsonschema-rs validates in a hundredth of the time of jsonschema, whose import alone takes a second.
It is compiled code, so some systems lack it; jsonschema alone gives the same answers. The messages
need the error objects of jsonschema, so both import it for invalid content.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labs.drive.record.stored_files import parse

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError


def objection(schema: Path, content: object) -> ValidationError | None:
    """The most relevant error in `content`; None if it is valid."""
    try:
        if _is_valid(schema)(content):
            return None
    except ValueError:  # a type or a key that JSON does not have: jsonschema names it
        pass
    from jsonschema import Draft202012Validator  # noqa: PLC0415
    from jsonschema.exceptions import best_match  # noqa: PLC0415

    errors = Draft202012Validator(_content(schema)).iter_errors(content)
    worst: ValidationError | None = best_match(errors)
    return worst


@cache
def _is_valid(schema: Path) -> Callable[[object], bool]:
    """The fastest check against a schema that is installed here."""
    try:
        from jsonschema_rs import Draft202012Validator  # noqa: PLC0415  making runs needs no package
    except ImportError:
        from jsonschema import Draft202012Validator as Slower  # noqa: PLC0415

        return Slower(_content(schema)).is_valid
    return Draft202012Validator(_content(schema)).is_valid


@cache
def _content(schema: Path) -> dict[str, Any]:
    content = parse(schema.read_bytes())
    assert isinstance(content, dict)
    return content
