"""The shape of a plan: what the schema refuses, and at which line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labs.batches.plan_source import SCHEMA
from labs.errors import BadInput
from tests.plans import of_buffers, plan, refused_at, write_plan


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("rate_mbit: 3", 2),
        ("Rate: 3", 2),
        ("RATE_MBIT: [1]\nexclud: []", 3),
        ("RATE_MBIT:", 2),
        ("RATE_MBIT: []", 2),
        ("RATE_MBIT:\n- [1]", 3),
        ("RATE_MBIT:\n- 1\n-", 4),
        ("RATE_MBIT:\n- {from: 1, to: 2, steps: 2}", 3),
        ("RATE_MBIT: {}", 2),
        ("RATE_MBIT: {from: 1}", 2),
        ("RATE_MBIT: {to: 1, steps: 2}", 2),
        ("RATE_MBIT: {from: 1, to: 5}", 2),
        ("RATE_MBIT: {from: 1,\n to: 5,\n stpes: 3}", 4),
        ("RATE_MBIT: {from: 1,\n to: 5,\n steps: 1}", 4),
        ("RATE_MBIT: {from: 1,\n to: 5,\n steps: 2.5}", 4),
        ("RATE_MBIT: {from: 1, to: 5,\n steps: yes}", 3),
        ("RATE_MBIT: {from: 1, to: 5,\n step: 0}", 3),
        ("RATE_MBIT: {from: 1, to: 5, step: 1,\n steps: 5}", 3),
        ("RATE_MBIT: {from: 1, to: 5, step: 1,\n scale: log}", 3),
        ("RATE_MBIT: {from: 1, to: 5, steps: 3,\n scale: lgo}", 3),
        ("RATE_MBIT: {steps: 3, scale: log, to: 1,\n from: 0}", 3),
        ("RATE_MBIT: {steps: 3, scale: log, to: 1,\n from: -1}", 3),
        ("RATE_MBIT: {steps: 3, to: 1e6,\n from: 1}", 2),
        ("zip: []", 2),
        ("zip: [RATE_MBIT, DELAY_MS]", 2),
        ("zip: [[RATE_MBIT]]", 2),
        ("zip:\n- [RATE_MBIT, DELAY_MS]\n- []", 4),
        ("exclude: []", 2),
        ("exclude: {RATE_MBIT: 1}", 2),
        ("exclude:\n- {}", 3),
        ("exclude:\n- rate: 1", 3),
        ("exclude:\n- RATE_MBIT: {}", 3),
        ("exclude:\n- RATE_MBIT: []", 3),
        ("exclude:\n- RATE_MBIT: {from: 1,\n   steps: 3}", 4),
        ("exclude: [" + "{A: 1}, " * 201 + "]", 2),
        ("repetitions: 0", 2),
        ("repetitions: 1.5", 2),
        ("repetitions: true", 2),
        ("seeds: []", 2),
        ("seeds: {from: 1}", 2),
        ("notebook: 3", 2),
    ],
)
def test_check_shape_refuses_with_the_line(tmp_path: Path, text: str, line: int) -> None:
    assert refused_at(write_plan(tmp_path, of_buffers(text))) == line


@pytest.mark.parametrize(
    ("text", "name"), [("exclud: []", "exclude"), ("RATE_MBIT: {form: 1, to: 2}", "from")]
)
def test_check_shape_names_the_nearest_key(tmp_path: Path, text: str, name: str) -> None:
    with pytest.raises(BadInput, match=rf"did you mean {name}\?"):
        plan(tmp_path, text)


def test_a_number_with_an_exponent_is_a_number(tmp_path: Path) -> None:
    assert plan(tmp_path, "RATE_MBIT: {from: 1e2, to: 3e2, steps: 2}").count == 2


def test_schema_describes_everything_that_it_refuses() -> None:
    """The description is what a refusal tells as allowed."""
    refusing = {"type", "enum", "const", "not", "required", "additionalProperties", "minimum"}
    refusing |= {"minItems", "maxItems", "minProperties", "exclusiveMinimum", "minLength"}
    without = [
        schema
        for schema in _schemas(json.loads(SCHEMA.read_text()))
        if refusing & schema.keys() and "description" not in schema
    ]
    assert without == []


def _schemas(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema in a schema but conditions, which only decide what else is asked."""
    if isinstance(schema, list):
        for part in schema:
            yield from _schemas(part)
    elif isinstance(schema, dict):
        yield schema
        for name in ("items", "then", "else", "allOf"):
            yield from _schemas(schema.get(name))
        for name in ("properties", "patternProperties", "$defs"):
            yield from _schemas(list(schema.get(name, {}).values()))
