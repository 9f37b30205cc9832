"""Errors of schema validation, with and without jsonschema-rs, also for types that JSON lacks."""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labs.batches.plan_source import SCHEMA as PLAN_SCHEMA
from labs.drive.record.stored_files import RUN_SCHEMA, RUN_SCHEMAS, STUDY_SCHEMA
from labs.read.claims.ledger import SCHEMA as ARTICLE_SCHEMA
from labs.read.json_schema import _is_valid, objection
from tests.run_folders import inputs, run_json

INSTALLED, ABSENT = "jsonschema-rs", "jsonschema alone"


@pytest.fixture(params=[INSTALLED, ABSENT], autouse=True)
def validator(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Which of the two packages validates; it is asserted, because the one falls back on the
    other in silence."""
    chosen: str = request.param
    _is_valid.cache_clear()
    if chosen == ABSENT:
        monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    module = type(getattr(_is_valid(STUDY_SCHEMA), "__self__", None)).__module__
    assert module.startswith("jsonschema_rs") == (chosen == INSTALLED), module
    yield chosen
    _is_valid.cache_clear()


@pytest.mark.parametrize("path", [*RUN_SCHEMAS.values(), STUDY_SCHEMA, ARTICLE_SCHEMA, PLAN_SCHEMA])
def test_every_schema_of_the_project_can_be_used(path: Path) -> None:
    assert not _is_valid(path)([])


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    path = tmp_path / "a.schema.json"
    said = {"type": "object", "properties": {"rate": {"type": "integer", "minimum": 1}}}
    path.write_text(json.dumps(said))
    return path


@pytest.mark.parametrize(
    "content",
    [{}, {"rate": 1}, {"rate": 2**70}, {"rate": 1.0}, {"other": datetime.date(1979, 5, 27)}],
)
def test_objection_is_none_for_what_fits(schema: Path, content: Any) -> None:
    assert objection(schema, content) is None


@pytest.mark.parametrize(
    ("content", "place", "message"),
    [
        ([], [], "[] is not of type 'object'"),
        ({"rate": 0}, ["rate"], "0 is less than the minimum of 1"),
        ({"rate": "1"}, ["rate"], "'1' is not of type 'integer'"),
        ({"rate": True}, ["rate"], "True is not of type 'integer'"),
        (
            {"rate": datetime.date(1979, 5, 27)},
            ["rate"],
            "datetime.date(1979, 5, 27) is not of type 'integer'",
        ),
    ],
)
def test_objection_names_the_place(
    schema: Path, content: Any, place: list[str], message: str
) -> None:
    found = objection(schema, content)
    assert found is not None and list(found.absolute_path) == place
    assert found.message == message


def test_objection_finds_any_entry_that_a_run_lacks() -> None:
    """Each entry of run.json is required."""
    whole = run_json(inputs())
    assert objection(RUN_SCHEMA, whole) is None
    for name in whole:
        found = objection(RUN_SCHEMA, {key: value for key, value in whole.items() if key != name})
        assert found is not None and found.message == f"'{name}' is a required property"
