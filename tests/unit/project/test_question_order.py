"""Every notebook asks before it answers, and shows no solution before the runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.question_order import ANSWERS, EVIDENCE, NOTEBOOKS, PREDICT, faults, tags_of

CAPTURE = "09-explain-your-own"


def read(stem: str) -> Any:
    return nbformat.read(NOTEBOOKS[0].with_stem(stem), as_version=4)


def moved(book: Any, name: str, before: str) -> Any:
    """The notebook with one cell at another place."""
    ids = [cell.id for cell in book.cells]
    cell = book.cells.pop(ids.index(name))
    book.cells.insert([cell.id for cell in book.cells].index(before), cell)
    return book


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_asks_before_it_answers(path: Path) -> None:
    assert faults(nbformat.read(path, as_version=4), path.stem) == []


def test_cells_that_may_show_something_while_a_question_is_open_exist() -> None:
    for stem, name in EVIDENCE:
        assert name in {cell.id for cell in read(stem).cells}


def test_answer_before_its_question_is_found_with_and_without_a_tag() -> None:
    """Notebook 09 once asked below the table with the main reason."""
    book = moved(read(CAPTURE), "connections", "predict")
    assert "connections answers predict, which comes later" in faults(book, CAPTURE)
    book = moved(read(CAPTURE), "chart", "predict")
    (early,) = faults(book, CAPTURE)
    assert early.startswith("chart shows seen.chart")


def test_result_between_question_and_answer_is_found() -> None:
    (early,) = faults(moved(read(CAPTURE), "account", "connections"), CAPTURE)
    assert early.startswith("account shows seen.account")


def test_question_without_an_answer_is_found_with_the_cell_to_tag() -> None:
    book = read(CAPTURE)
    for cell in book.cells:
        cell.metadata.pop("tags" if tags_of(cell) == {f"{ANSWERS}{PREDICT}"} else "", None)
    (untold,) = faults(book, CAPTURE)
    assert untold.startswith("0 cells") and "connections" in untold


def test_solution_before_the_runs_or_the_grade_is_found() -> None:
    stem = "00-start-here"
    assert any("solution" in one for one in faults(moved(read(stem), "solution", "study"), stem))
    assert any("solution" in one for one in faults(moved(read(stem), "solution", "grade"), stem))


def test_figure_that_was_shown_before_its_question_is_found() -> None:
    """A later question, whose figure or table an earlier section has, of the same condition."""
    stem = "00-start-here"
    book = read(stem)
    cells = {cell.id: cell for cell in book.cells}
    asked, shown = cells["about-both"], cells["timeline-both"]
    asked.metadata["tags"], shown.metadata["tags"] = [PREDICT], [f"{ANSWERS}about-both"]
    assert faults(book, stem) == []
    shown.source = shown.source.replace('"both"', '"default"')
    (early,) = faults(book, stem)
    assert early.startswith("steps-default shows labs.charts.buffers.timeline")
