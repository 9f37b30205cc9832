"""Errors of schema validation, also for types that JSON does not have."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from labs.batches.plan_schema import SCHEMA as PLAN_SCHEMA
from labs.drive.record.stored_files import RUN_SCHEMAS, STUDY_SCHEMA
from labs.read.claims.ledger import SCHEMA as ARTICLE_SCHEMA
from labs.read.json_schema import _compiled, objection


@pytest.mark.parametrize("path", [*RUN_SCHEMAS.values(), STUDY_SCHEMA, ARTICLE_SCHEMA, PLAN_SCHEMA])
def test_compiled_takes_every_schema_of_the_project(path: Path) -> None:
    assert not _compiled(path).is_valid([])


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
    ("content", "place"),
    [
        ([], []),
        ({"rate": 0}, ["rate"]),
        ({"rate": "1"}, ["rate"]),
        ({"rate": True}, ["rate"]),
        ({"rate": datetime.date(1979, 5, 27)}, ["rate"]),
    ],
)
def test_objection_names_the_place(schema: Path, content: Any, place: list[str]) -> None:
    found = objection(schema, content)
    assert found is not None and list(found.absolute_path) == place
