"""Source notebooks of nbgrader and the points of their graded cells; `tests/course` has nbgrader
itself grade them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

import labs
from labs.cli.__main__ import main
from labs.errors import BadInput
from labs.grading.grade_sheet import exercises_of
from tests.student_work import NOTEBOOKS

START = "00-start-here"
# nbgrader 0.9.6, nbgrader/nbgraderformat/v3.json: required and allowed.
REQUIRED = {"schema_version", "grade", "locked", "solution"}
ALLOWED = REQUIRED | {"task", "grade_id", "points", "checksum", "cell_type"}
GRADED = sorted(path for path in NOTEBOOKS.glob("*.ipynb") if '"answer"' in path.read_text("utf-8"))


def source(stem: str, into: Path, *flags: str) -> Any:
    notebook = str(NOTEBOOKS / f"{stem}.ipynb")
    assert main(["student", notebook, "--into", str(into), "--nbgrader", *flags]) == 0
    path = into / f"{stem}.ipynb"
    nbformat.validate(nbformat.read(path, as_version=4))
    return json.loads(path.read_text("utf-8"))


@pytest.mark.parametrize("notebook", GRADED, ids=lambda path: path.stem)
def test_each_question_has_a_graded_cell_worth_one_point(notebook: Path, tmp_path: Path) -> None:
    cells = source(notebook.stem, tmp_path)["cells"]
    marked = {cell["id"]: cell["metadata"].get("nbgrader") for cell in cells}
    questions = [f"points-{exercise.name}" for exercise in exercises_of(notebook.stem)[1]]
    after = [cell["id"] for cell in cells].index("grade") + 1
    assert [cell["id"] for cell in cells[after : after + len(questions)]] == questions
    for name, metadata in marked.items():
        if metadata is not None:
            assert set(metadata) >= REQUIRED and set(metadata) <= ALLOWED
            assert (
                metadata["schema_version"] == 3 and metadata["locked"] and not metadata["solution"]
            )
            assert metadata["grade"] == (name in questions) == ("points" in metadata)
    assert [marked[question]["points"] for question in questions] == [1] * len(questions)
    ids = [metadata["grade_id"] for metadata in marked.values() if metadata]
    assert len({*ids}) == len(ids) == len(questions) + 2


def test_cells_for_answers_are_ordinary_cells(tmp_path: Path) -> None:
    """nbgrader replaces the content of its solution cells (preprocessors/clearsolutions.py)."""
    for cell in source(START, tmp_path, "--recorded")["cells"]:
        if {"answer", "guess", "parameters"} & {*cell["metadata"].get("tags", [])}:
            assert "nbgrader" not in cell["metadata"]


def test_a_source_notebook_that_was_edited_is_kept(tmp_path: Path) -> None:
    source(START, tmp_path)
    path = tmp_path / f"{START}.ipynb"
    path.write_text(path.read_text("utf-8").replace("bdp_mib = None", "bdp_mib = 1"), "utf-8")
    edited = path.read_bytes()
    source(START, tmp_path)
    assert path.read_bytes() == edited


def test_a_notebook_without_exercises_has_nothing_of_nbgrader(tmp_path: Path) -> None:
    assert "nbgrader" not in json.dumps(source("10-batch-report", tmp_path)["cells"])


@pytest.mark.parametrize(
    ("answer", "points", "phrase"),
    [(2.62, 1, "right"), (2.75, 0, "MB"), ("much", 0, "unreadable"), (None, 0, "")],
)
def test_points_prints_the_hint_of_an_answer(
    answer: object, points: int, phrase: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {"TESTBED": "recorded", "bdp_mib": answer}
    assert labs.points(START, "bdp_mib", names) == points
    assert phrase in capsys.readouterr().out


def test_points_refuses_an_unknown_question() -> None:
    with pytest.raises(BadInput, match="Allowed: bdp_mib, limit, longest_rtt_ms"):
        labs.points(START, "bdp", {})
