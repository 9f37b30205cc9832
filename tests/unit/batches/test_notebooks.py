"""Notebooks of a batch, executed by papermill in real kernels."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import nbformat
import pytest
from papermill.iorw import write_ipynb

from labs.batches import notebooks
from labs.errors import LabError, RunFailed
from labs.publish import execute
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
    content: Any = nbformat.read(path, as_version=4)
    cells = [cell for cell in content.cells if cell.cell_type == "code"]
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
    assert not notebooks.executed(tmp_path, 2).exists()
    assert outputs(notebooks.failed(tmp_path, 2)) == "rate 2.0\n"
    names = sorted(path.name for path in (tmp_path / notebooks.FOLDER).iterdir())
    assert names == ["0001.ipynb", "0002.failed.ipynb", "0003.ipynb"]


def test_execute_all_does_not_save_a_notebook_at_each_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[str] = []

    def write(book: Any, path: str) -> None:
        saved.append(path)
        write_ipynb(book, path)

    monkeypatch.setattr("papermill.engines.write_ipynb", write)
    notebook = book(tmp_path / "n.ipynb", *(f"print({number})" for number in range(9)))
    notebooks.execute_all(
        notebook, {1: ({}, "a")}, tmp_path, jobs=1, tell=lambda number, error: None
    )
    assert outputs(notebooks.executed(tmp_path, 1)) == "".join(f"{number}\n" for number in range(9))
    assert len(saved) == 2  # as it begins, and as it ends


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
    notebook = book(tmp_path / "n.ipynb", "1")
    first = notebooks.identity(notebook, {"A": 1.0}, ["k1", "k2"])
    assert first == notebooks.identity(notebook, {"A": 1}, ["k2", "k1"])
    others = {
        notebooks.identity(notebook, {"A": 2}, ["k1", "k2"]),
        notebooks.identity(notebook, {"A": 1}, ["k1"]),
        notebooks.identity(book(tmp_path / "m.ipynb", "2"), {"A": 1}, ["k1", "k2"]),
    }
    assert len(others | {first}) == 4


def test_arrange_gives_notebooks_the_numbers_of_their_points(tmp_path: Path) -> None:
    """A plan in which two points have changed places, one is new and one is gone. What a killed
    process left is removed; a file of the user's own stays."""
    where = tmp_path / notebooks.FOLDER
    where.mkdir()
    for number, identity in ((1, "a" * 64), (2, "b" * 64), (3, "c" * 64)):
        content = {"metadata": {"labs": {"executed_from": identity}}}
        notebooks.executed(tmp_path, number).write_text(json.dumps(content))
    for name in (".0002-123.ipynb", "0004.failed.ipynb", "mine.ipynb"):
        (where / name).write_text("{")
    kept = notebooks.arrange(tmp_path, {1: "b" * 64, 2: "a" * 64, 3: "d" * 64})
    assert kept == {1, 2}
    assert "b" * 64 in notebooks.executed(tmp_path, 1).read_text()
    assert "a" * 64 in notebooks.executed(tmp_path, 2).read_text()
    assert not notebooks.executed(tmp_path, 3).exists()
    assert {path.name for path in where.iterdir()} == {
        "0001.ipynb",
        "0002.ipynb",
        "earlier",
        "mine.ipynb",
    }
    assert {path.name for path in (where / notebooks.EARLIER).iterdir()} == {
        "0003.ipynb",
        "0004.failed.ipynb",
    }


@pytest.mark.parametrize("content", ["", "{", "[]", '{"metadata": 3}', '{"metadata": {"labs": 1}}'])
def test_arrange_puts_damaged_notebooks_aside(content: str, tmp_path: Path) -> None:
    path = notebooks.executed(tmp_path, 1)
    path.parent.mkdir()
    path.write_text(content)
    assert notebooks.arrange(tmp_path, {1: "a" * 64}) == set()
    assert (path.parent / notebooks.EARLIER / path.name).read_text() == content


def test_execute_all_ends_the_kernels_when_it_is_interrupted(tmp_path: Path) -> None:
    """^C while a notebook sleeps: its kernel is killed, and the call ends."""
    notebook = book(
        tmp_path / "n.ipynb", "open('begun', 'w').close(); import time; time.sleep(300)"
    )
    script = (
        "import sys; from pathlib import Path; from labs.batches import notebooks; "
        "from labs.read.notebook_file import read_notebook; "
        "notebooks.execute_all(read_notebook(Path('n.ipynb')), {1: ({}, 'a')}, Path('.'), jobs=1, "
        "tell=lambda number, error: None)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    process = subprocess.Popen(
        (sys.executable, "-c", script), cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL
    )
    while not (tmp_path / "begun").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) != 0
    assert notebook.path.exists() and not notebooks.executed(tmp_path, 1).exists()


def test_kernels_are_ended_while_threads_end() -> None:
    """A thread that ends between two looks at /proc has no children, and is no error."""
    enough = threading.Event()

    def begin_threads() -> None:
        while not enough.is_set():
            thread = threading.Thread(target=lambda: None)
            thread.start()
            thread.join()

    beginning = threading.Thread(target=begin_threads)
    beginning.start()
    try:
        for _ in range(1000):
            execute._end_kernels()
    finally:
        enough.set()
        beginning.join()
