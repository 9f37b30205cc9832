"""A notebook executed again: numbers and words in its outputs are compared, the rest is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from labs.read.notebook_file import FIGURE, NotebookFile, notebook_file
from labs.verify.executed_again import Cells, execute_again


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


PRINT = "import sys\nprint(1 / 4, 'holds')\nprint('progress', file=sys.stderr)"
IMAGE = "from IPython.display import Image\nImage(b'abc', format='png')"


def printing(*streams: tuple[str, str]) -> NotebookFile:
    """A notebook that prints to two streams, with what it has printed before."""
    notebook = book((PRINT, {}))
    cell = notebook.content["cells"][1]
    cell["outputs"] = [new_output("stream", name=name, text=text) for name, text in streams]
    return notebook


def test_equal_outputs_in_another_folder_of_runs(tmp_path: Path) -> None:
    """RUNS is another file here, an object is elsewhere in memory, and runs are not performed."""
    notebook = book(
        ("6 * 7", {"text/plain": "42"}),
        ("'live, in ' + RUNS", {"text/plain": "'live, in runs'"}),
        ("print('·', 'recorded')", {}),
        ("object()", {"text/plain": "<object at 0x7f0123456789>"}),
        ("1", {"text/plain": "1"}),
    )
    cells = notebook.content["cells"]
    cells[3]["outputs"] = [new_output("stream", name="stdout", text="· live, in runs\n")]
    cells[5]["outputs"].insert(0, new_output("display_data", {}))  # of a progress bar
    done = again(notebook, tmp_path)
    assert (done.equal, done.compared, done.changed, done.not_compared) == (True, 6, (), {})


def test_live_runs_of_a_table_are_recorded_ones_in_a_bundle(tmp_path: Path) -> None:
    """A table pads its columns, so that of live runs is narrower (`study.results()`)."""
    show = "type('Table', (), {{'__repr__': lambda _: '    source  x\\n0  recorded  {}'}})()"
    live = {"text/plain": "  source  x\n0   live  1"}
    compared = again(book((show.format(1), live)), tmp_path)
    assert (compared.equal, compared.not_compared) == (True, {})
    assert again(book((show.format(2), live)), tmp_path).changed == (2,)


@pytest.mark.parametrize(
    ("printed", "changed"), [("0.25 holds", ()), ("2.5 holds", (2,)), ("0.25 false", (2,))]
)
def test_printed_numbers_and_words_are_compared(
    tmp_path: Path, printed: str, changed: tuple[int, ...]
) -> None:
    compared = again(printing(("stderr", "progress\n"), ("stdout", f"{printed}\n")), tmp_path)
    assert (compared.changed, compared.not_compared) == (changed, {})


@pytest.mark.parametrize(
    ("source", "data", "kind"),
    [
        (
            IMAGE,
            {"image/png": "eHl6\n", "text/plain": "<IPython.core.display.Image object>"},
            "image/png",
        ),
        ("1", {"text/plain": "1", "image/png": "eHl6\n"}, "image/png"),
        ("1", {"text/plain": " 1"}, "text/plain"),
    ],
)
def test_what_has_no_words_is_named(
    tmp_path: Path, source: str, data: dict[str, Any], kind: str
) -> None:
    """Another image, an image that the cell does not show, and other white space."""
    compared = again(book((source, data)), tmp_path)
    assert compared.equal and kind in compared.not_compared[2]
    assert kind in compared.as_json()["not_compared"]["2"]


def test_other_text_on_stderr_is_named(tmp_path: Path) -> None:
    compared = again(printing(("stdout", "0.25 holds\n"), ("stderr", "mean 3 ms\n")), tmp_path)
    assert (compared.equal, compared.not_compared) == (True, {2: ("stderr",)})


@pytest.mark.parametrize(
    ("y", "title", "changed"), [(2.5, "a", ()), (2.25, "a", (2,)), (2.5, "b", (2,))]
)
def test_numbers_and_words_of_a_figure_are_compared(
    tmp_path: Path, y: float, title: str, changed: tuple[int, ...]
) -> None:
    draw = "{'application/vnd.plotly.v1+json': {'data': [{'y': [1, 2.5]}], 'title': 'a'}}"
    show = f"from IPython.display import display\ndisplay({draw}, raw=True)"
    figure = {"data": [{"y": [1, y]}], "title": title}
    assert again(book((show, {FIGURE: figure})), tmp_path).changed == changed


@pytest.mark.parametrize(
    ("source", "data", "first"),
    [
        ("6 * 7", {"text/plain": "43"}, "43 -> 42"),
        ("'a', 'b'", {"text/plain": "('a', 'c')"}, "'c') -> 'b') after ('a',"),
        ("print(1)\n1.5e-3", {"text/plain": "0.0025"}, "0.0025 -> 0.0015"),
    ],
)
def test_other_numbers_and_words_are_found(
    tmp_path: Path, source: str, data: dict[str, Any], first: str
) -> None:
    compared = again(book(("1", {"text/plain": "1"}), (source, data)), tmp_path)
    assert (compared.equal, compared.changed, compared.first) == (False, (3,), first)


def test_a_cell_that_measures_the_machine_is_named_as_such(tmp_path: Path) -> None:
    """Only `labs.audit()` reads this machine; with runs it reads what they recorded."""
    fake = "class labs:\n    audit = staticmethod(lambda *runs: 8)\n"
    old = {"text/plain": "7"}
    compared = again(book((f"{fake}labs.audit()", old), ("labs.audit([1])", old)), tmp_path)
    assert (compared.of_machine, compared.changed) == ((2,), (3,))
    compared = again(book((f"{fake}labs.audit()", old)), tmp_path)
    assert compared.equal and compared.as_json()["of_machine"] == [2]


def test_a_notebook_that_stops_is_told(tmp_path: Path) -> None:
    compared = again(book(("1 / 0", {"text/plain": "1"})), tmp_path)
    assert not compared.equal and "ZeroDivisionError" in compared.stopped


def test_nothing_is_written_beside_the_bundle(tmp_path: Path) -> None:
    again(book(("open('left', 'w').write('x')", {"text/plain": "1"})), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"work"}
