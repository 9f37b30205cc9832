"""Notebooks of a batch, executed by papermill in real kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

from labs.batches import notebooks
from labs.errors import LabError, RunFailed
from labs.read.notebook_file import NotebookFile, read_notebook

PARAMETERS = "RATE_MBIT = 1.0  # link rate"


def book(path: Path, *cells: str) -> NotebookFile:
    """A notebook with a parameters cell and further code cells."""
    first = nbformat.v4.new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]})
    others = [nbformat.v4.new_code_cell(cell) for cell in cells]
    nbformat.write(nbformat.v4.new_notebook(cells=[first, *others]), path)
    return read_notebook(path)


def outputs(path: Path) -> str:
    """What the cells of an executed notebook printed."""
    found: Any = nbformat.read(path, as_version=4)
    cells = [cell for cell in found.cells if cell.cell_type == "code"]
    return "".join(out.get("text", "") for cell in cells for out in cell.outputs)


def test_execute_all_keeps_whole_notebooks_and_those_that_stopped(tmp_path: Path) -> None:
    """Three points side by side; the second one stops at an error, and its cells before that
    remain. papermill's own metadata has the parameters of each."""
    notebook = book(
        tmp_path / "n.ipynb", "print('rate', RATE_MBIT)", "assert RATE_MBIT != 2, 'two is refused'"
    )
    told: dict[int, LabError | None] = {}
    stopped = notebooks.execute_all(
        notebook,
        {number: ({"RATE_MBIT": float(number)}, f"from-{number}") for number in (1, 2, 3)},
        tmp_path,
        jobs=2,
        tell=lambda number, error: told.update({number: error}),
    )
    assert set(told) == {1, 2, 3} and set(stopped) == {2}
    assert isinstance(stopped[2], RunFailed) and "two is refused" in str(stopped[2])
    for number in (1, 3):
        path = notebooks.executed(tmp_path, number)
        assert outputs(path) == f"rate {float(number)}\n"
        about: Any = nbformat.read(path, as_version=4).metadata.papermill
        assert about["parameters"] == {"RATE_MBIT": float(number)}
        assert about["output_path"] == str(path) and about["exception"] is None
        assert notebooks.is_executed(path, f"from-{number}")
    assert not notebooks.executed(tmp_path, 2).exists()
    assert outputs(notebooks.failed(tmp_path, 2)) == "rate 2.0\n"
    names = sorted(one.name for one in (tmp_path / notebooks.FOLDER).iterdir())
    assert names == ["0001.ipynb", "0002.failed.ipynb", "0003.ipynb"]


def test_execute_all_with_fail_fast_raises_the_first_error(tmp_path: Path) -> None:
    notebook = book(tmp_path / "n.ipynb", "raise ValueError('no')")
    with pytest.raises(RunFailed, match="ValueError: no"):
        notebooks.execute_all(
            notebook,
            {1: ({}, "a")},
            tmp_path,
            jobs=1,
            tell=lambda number, error: None,
            fail_fast=True,
        )


def test_identity_changes_with_notebook_values_and_runs(tmp_path: Path) -> None:
    one = book(tmp_path / "n.ipynb", "1")
    first = notebooks.identity(one, {"A": 1.0}, ["k1", "k2"])
    assert first == notebooks.identity(one, {"A": 1}, ["k2", "k1"])
    others = {
        notebooks.identity(one, {"A": 2}, ["k1", "k2"]),
        notebooks.identity(one, {"A": 1}, ["k1"]),
        notebooks.identity(book(tmp_path / "m.ipynb", "2"), {"A": 1}, ["k1", "k2"]),
    }
    assert len(others | {first}) == 4


@pytest.mark.parametrize("content", ["", "{", "[]", '{"metadata": 3}', '{"metadata": {"labs": 1}}'])
def test_is_executed_of_damaged_files(content: str, tmp_path: Path) -> None:
    path = tmp_path / "n.ipynb"
    path.write_text(content)
    assert not notebooks.is_executed(path, "x")
