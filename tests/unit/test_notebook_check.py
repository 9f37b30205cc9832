"""The second cell of a notebook: a wrong parameter stops it there, in one line."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nbformat
import pytest

import labs
from labs.errors import BadInput
from labs.parameters.buffers import Buffers
from labs.parameters.describe import literals
from labs.parameters.notebook import from_globals

ROOT = Path(__file__).resolve().parents[2]
LACKING = [name for name in ("papermill", "ipykernel") if find_spec(name) is None]
needs_papermill = pytest.mark.skipif(bool(LACKING), reason=f"not installed: {', '.join(LACKING)}")


def refused(names: dict[str, Any], lab: str = "buffers") -> str:
    with pytest.raises(BadInput) as caught:
        labs.check(lab, names)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_names_in_capitals_are_the_parameters() -> None:
    names = {"RATE_MBIT": 10, "SIZE": "full", "_PRIVATE": 1, "answer": 42, "Table": 3, "In": [],
             "OS": os, "INT": int}
    assert labs.check("buffers", names) == Buffers(rate_mbit=10, size="full")


@pytest.mark.parametrize(("names", "said"), [
    ({"RATE_MBTI": 10}, "RATE_MBTI is not a parameter; did you mean RATE_MBIT?"),
    ({"MSS": 1448}, "write a name of your own in small letters"),
    ({"RATE_MBIT": "10"}, 'RATE_MBIT = "10" is text, not a number'),
    ({"RATE_MBIT": -1}, "RATE_MBIT = -1 is out of range"),
    ({"ONLY": "defalt"}, "defalt is not a condition; did you mean default?"),
    ({"KERNEL": 6.1}, "papermill: -r KERNEL 6.1"),
])
def test_a_wrong_name_or_value_is_refused(names: dict[str, Any], said: str) -> None:
    assert said in refused(names)


def test_an_unknown_lab_is_refused() -> None:
    assert "did you mean buffers?" in refused({}, "bufers")


def test_names_that_papermill_set_are_parameters_in_any_case() -> None:
    cells = ["", "RATE_MBIT = 1000", "# Parameters\nrate_mbit = 10\n"]
    assert "did you mean RATE_MBIT?" in refused({"In": cells, "rate_mbit": 10})
    assert refused({"In": cells[:2], "RATE_MBTI": 1})
    assert from_globals(Buffers, {"In": ["# Parameters\nSEED = 3\n"], "SEED": 3}).seed == 3
    assert from_globals(Buffers, {"In": ["# Parameters\n%magic\n"]}) == Buffers()


def notebook(path: Path) -> Path:
    """A notebook that checks its parameters and then leaves a file, `started`."""
    cells = [
        nbformat.v4.new_code_cell(literals(Buffers), metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell(
            'import labs\np = labs.check("buffers", globals())', metadata={"tags": ["check"]}
        ),
        nbformat.v4.new_code_cell("open('started', 'w').write(repr(p))"),
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    book = nbformat.v4.new_notebook(cells=cells, metadata=kernel)
    nbformat.write(book, path)
    return path


def papermill(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the notebook by papermill's command line, in `folder`."""
    source = notebook(folder / "in.ipynb")
    return subprocess.run(
        [sys.executable, "-m", "papermill", str(source), str(folder / "out.ipynb"), *words,
         "--cwd", str(folder), "--no-progress-bar"],
        capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT), "IPYTHONDIR": str(folder / "ipython")},
    )


@needs_papermill
@pytest.mark.parametrize(("words", "said"), [
    (("-p", "RATE_MBTI", "10"), "RATE_MBTI is not a parameter; did you mean RATE_MBIT?"),
    (("-p", "rate_mbit", "10"), "rate_mbit is not a parameter; did you mean RATE_MBIT?"),
    (("-p", "KERNEL", "6.10"), "KERNEL = 6.1 is a number, not text"),
])
def test_papermill_fails_in_the_second_cell(
        tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    done = papermill(tmp_path, *words)
    assert done.returncode != 0
    assert f"BadInput: {said}" in done.stderr
    assert not (tmp_path / "started").exists() and not (tmp_path / "runs").exists()
    book = nbformat.read(tmp_path / "out.ipynb", as_version=4)
    (error,) = [output for cell in book.cells for output in cell.get("outputs", ())
                if output.output_type == "error"]
    assert len(error.traceback) == 1 and "\n" not in error.traceback[0]
    (failed,) = [cell for cell in book.cells if error in cell.get("outputs", ())]
    assert failed.metadata.tags == ["check"]


@needs_papermill
def test_papermill_sets_a_parameter(tmp_path: Path) -> None:
    done = papermill(tmp_path, "-p", "RATE_MBIT", "10", "-r", "KERNEL", "6.10")
    assert done.returncode == 0, done.stderr
    started = (tmp_path / "started").read_text()
    assert "rate_mbit=10.0" in started and "kernel='6.10'" in started
