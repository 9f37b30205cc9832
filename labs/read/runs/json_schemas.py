"""JSON read from a file held to its JSON Schema, with the first objection in one line."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labs.drive.record.canonical import parse
from labs.errors import Damaged

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator


@cache
def _validator(schema: Path) -> Draft202012Validator:
    from jsonschema import Draft202012Validator  # noqa: PLC0415  making runs needs only Python

    found = parse(schema.read_bytes())
    assert isinstance(found, dict)
    return Draft202012Validator(found)


def held_to(schema: Path, content: object, file: Path) -> dict[str, Any]:
    """Return `content`, read from `file`, once it fits the schema; else raise Damaged."""
    from jsonschema.exceptions import best_match  # noqa: PLC0415

    error = best_match(_validator(schema).iter_errors(content))
    if error is None:
        assert isinstance(content, dict)
        return content
    where = ".".join(str(part) for part in error.absolute_path) or "the whole"
    said = " ".join(error.message.split())
    if len(said) > 160:
        said = said[:157] + "..."
    raise Damaged(f"{file}: {where}: {said}; it does not fit {schema.name}, so make it again")
