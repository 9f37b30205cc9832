"""Check the shape of a plan against `plan.schema.json`; report the first problem in one line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labs.batches.axis_values import number_hint
from labs.batches.plan_source import Place, PlanSource
from labs.drive.parameters.declare import did_you_mean, shown
from labs.read.json_schema import objection

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

SCHEMA = Path(__file__).with_name("plan.schema.json")


def check_shape(source: PlanSource) -> None:
    """BadInput, with the line, if the content does not match the schema. Each part of the schema
    describes what it allows."""
    error = objection(SCHEMA, source.content)
    if error is not None:
        assert isinstance(error.schema, Mapping)
        place, problem = _problem(error, error.schema)
        hint = number_hint(error.instance) if error.validator == "type" else ""
        raise source.complaint(f"{problem} Allowed: {error.schema['description']}{hint}", *place)


def _problem(error: ValidationError, schema: Mapping[str, Any]) -> tuple[Place, str]:
    """The place of an error, and the problem there."""
    place = tuple(error.absolute_path)
    name = ".".join(str(part) for part in place) or "the plan"
    found: Any = error.instance
    if error.validator == "additionalProperties":
        known, extra = _names(schema, found)
        return (*place, extra), f"{extra} is not a key of {name}{did_you_mean(extra, known) or '.'}"
    if error.validator == "required":
        lacking = next(one for one in schema["required"] if one not in found)
        return place, f"{name} has no {lacking}."
    if error.validator in ("minItems", "minProperties"):
        return place, f"{name} {'has only one entry' if found else 'is empty'}."
    return place, f"{name} = {shown(found)} cannot be used."


def _names(schema: Mapping[str, Any], found: Mapping[str, Any]) -> tuple[list[str], str]:
    """The keys that a schema lists, and the first key of a mapping that is not allowed."""
    known = list(schema.get("properties", {}))
    patterns = list(schema.get("patternProperties", {}))
    return known, next(
        name
        for name in found
        if name not in known and not any(re.search(one, name) for one in patterns)
    )
