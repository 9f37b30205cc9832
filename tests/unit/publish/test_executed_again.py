"""A notebook executed again: the numbers in its outputs, and nothing else, are compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from labs.publish.executed_again import Cells, execute_again
from labs.read.notebook_file import FIGURE, NotebookFile, notebook_file


def book(*cells: tuple[str, dict[str, Any]]) -> NotebookFile:
    """A notebook of cells that have been executed, each with the data of its result."""
    first = new_code_cell("RUNS = 'runs'", metadata={"tags": ["parameters"]})
    rest = [
        new_code_cell(source, outputs=[new_output("execute_result", data)] if data else [])
        for source, data in cells
    ]
    return notebook_file(new_notebook(cells=[first, *rest]), Path("book.ipynb"))


def again(notebook: NotebookFile, folder: Path) -> Cells:
    (folder / "work").mkdir(exist_ok=True)
    return execute_again(notebook, folder / "runs.tar.xz", folder / "work", progress=False)


def test_equal_numbers_in_text_tables_and_figures(tmp_path: Path) -> None:
    draw = "import plotly.graph_objects as go\ngo.Figure(go.Bar(y=[1, 2.5]))"
    figure = {"data": [{"type": "bar", "y": [1, 2.5]}], "layout": {}}
    found = again(
        book(
            ("6 * 7", {"text/plain": "42"}),
            ("'run-0a1b2c of 3 in folder/x'", {"text/plain": "'run-99ff of 3 in elsewhere'"}),
            ("RUNS.split('/')[-1]", {"text/plain": "'runs.tar.xz'"}),
            ("print(1 / 3)", {}),
        ),
        tmp_path,
    )
    assert (found.equal, found.compared, found.changed) == (True, 5, ())
    changed = again(book((draw, {FIGURE: figure | {"layout": {"width": 7}}})), tmp_path)
    assert changed.changed == (2,)


@pytest.mark.parametrize(
    ("source", "data", "first"),
    [
        ("6 * 7", {"text/plain": "43"}, "43 -> 42"),
        ("[1, 2]", {"text/plain": "[1]"}, "1 numbers -> 2"),
        ("1.5e-3", {"text/plain": "0.0025"}, "0.0025 -> 0.0015"),
    ],
)
def test_other_numbers_are_found(
    tmp_path: Path, source: str, data: dict[str, Any], first: str
) -> None:
    found = again(book(("1", {"text/plain": "1"}), (source, data)), tmp_path)
    assert (found.equal, found.changed, found.first) == (False, (3,), first)


def test_a_cell_that_measures_the_machine_is_named_as_such(tmp_path: Path) -> None:
    """Only `labs.audit()` reads this machine; with runs it reads what they recorded."""
    fake = "class labs:\n    audit = staticmethod(lambda *runs: 8)\n"
    old = {"text/plain": "7"}
    found = again(book((f"{fake}labs.audit()", old), ("labs.audit([1])", old)), tmp_path)
    assert (found.of_machine, found.changed) == ((2,), (3,))
    found = again(book((f"{fake}labs.audit()", old)), tmp_path)
    assert found.equal and found.as_json()["of_machine"] == [2]


def test_a_notebook_that_stops_is_told(tmp_path: Path) -> None:
    found = again(book(("1 / 0", {"text/plain": "1"})), tmp_path)
    assert not found.equal and "ZeroDivisionError" in found.stopped


def test_nothing_is_written_beside_the_bundle(tmp_path: Path) -> None:
    again(book(("open('left', 'w').write('x')", {"text/plain": "1"})), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"work"}
