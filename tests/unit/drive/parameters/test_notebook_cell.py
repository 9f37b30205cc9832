"""Parameters in a notebook: the text of their cell, and the check that follows it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nbformat
import numpy
import pytest
from click.testing import CliRunner, Result

import labs
from labs.catalog import LABS, find
from labs.drive.parameters.declare import declared
from labs.errors import BadInput
from labs.experiments.buffers.conditions import Parameters as Buffers

ROOT = Path(__file__).resolve().parents[4]
LACKING = [name for name in ("papermill", "ipykernel") if find_spec(name) is None]
CLASSES = [find(lab).Parameters for lab in LABS]
needs_papermill = pytest.mark.skipif(bool(LACKING), reason=f"not installed: {', '.join(LACKING)}")


def refused(names: dict[str, Any], lab: str = "buffers", **changed: Any) -> str:
    with pytest.raises(BadInput) as caught:
        labs.check(lab, names, **changed)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def inside(names: dict[str, Any], call: str = 'labs.check("buffers", globals())') -> Any:
    """The result of code whose globals are these names."""
    return eval(call, {"labs": labs, **names})


def refused_inside(names: dict[str, Any], call: str = 'labs.check("buffers", globals())') -> str:
    with pytest.raises(BadInput) as caught:
        inside(names, call)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_check_refuses_a_list_and_names_grid() -> None:
    said = refused({"RATE_MBIT": [50, 100]})
    assert "RATE_MBIT = [50, 100] is a list" in said and "labs.grid(" in said


def test_grid_reads_lists_and_values() -> None:
    names = {"RATE_MBIT": [50, 100], "KERNEL": ["6.1", "6.12"], "CAPTURE": (True, False)}
    p, over = labs.grid("buffers", {**names, "DELAY_MS": 40})
    assert p == Buffers(rate_mbit=50, delay_ms=40, capture=True)
    assert over == {"rate_mbit": (50.0, 100.0), "kernel": ("6.1", "6.12"), "capture": (True, False)}
    assert labs.grid("buffers", {"DELAY_MS": 40}) == (Buffers(delay_ms=40), {})


def test_grid_reads_an_array_and_a_range() -> None:
    names = {"RATE_MBIT": numpy.linspace(50, 100, 3), "SEED": range(1, 4)}
    _, over = labs.grid("buffers", names)
    assert over == {"rate_mbit": (50.0, 75.0, 100.0), "seed": (1, 2, 3)}
    assert labs.check("buffers", {"RATE_MBIT": numpy.float64(50)}) == Buffers(rate_mbit=50)


@pytest.mark.parametrize(
    ("names", "part"),
    [
        ({"RATE_MBIT": []}, "RATE_MBIT is an empty list"),
        ({"RATE_MBIT": [50, 0]}, "RATE_MBIT = 0 is out of range"),
        ({"RATE_MBIT": [50, "x"]}, 'RATE_MBIT = "x" is text'),
        ({"ONLY": ["default", "both"]}, "ONLY takes one value"),
        ({"RUNS": ["a", "b"]}, "RUNS takes one value"),
        ({"KERNEL": ["6.1,6.12", "7.2"]}, 'KERNEL = "6.1,6.12" is several kernels'),
        ({"RATE_MBTI": [50]}, "did you mean RATE_MBIT?"),
        ({"SEED": range(10**9)}, "1000000000"),
    ],
)
def test_grid_refuses_in_one_line(names: dict[str, Any], part: str) -> None:
    with pytest.raises(BadInput) as caught:
        labs.grid("buffers", names)
    assert part in str(caught.value) and "\n" not in str(caught.value)


def test_check_reads_names_in_capitals_of_a_script() -> None:
    names = {
        "RATE_MBIT": 10,
        "SIZE": "full",
        "_PRIVATE": 1,
        "answer": 42,
        "Table": 3,
        "In": [],
        "OS": os,
        "INT": int,
    }
    assert inside(names) == Buffers(rate_mbit=10, size="full")
    assert "Use lower case for names of your own." in refused_inside({"RATE": 10})


@pytest.mark.parametrize("name", ["rate_mbit", "BDP", "In", "answer", 1])
def test_check_and_grid_refuse_any_other_name_of_a_dict(name: Any) -> None:
    names = {"RATE_MBIT": 10, name: 5}
    assert f"{name} is not a parameter" in refused(names)
    with pytest.raises(BadInput, match=f"{name} is not a parameter"):
        labs.grid("buffers", names)


@pytest.mark.parametrize("cells", [(), ("RATE_MBIT = 10",), ("RATE_MBIT = 10\nONLY = 'wmem'",)])
def test_check_refuses_a_copy_of_globals(cells: tuple[str, ...]) -> None:
    """Of a script and of notebooks; in one of them it would be used."""
    names = executed(*cells) if cells else {"RATE_MBIT": 10}
    said = refused_inside(names, 'labs.check("buffers", {**globals(), "ONLY": "both"})')
    assert 'globals(), only="default,both")' in said


def test_keywords_replace_values() -> None:
    names = executed("RATE_MBIT = 10\nONLY = 'off,on'")  # conditions of another lab
    call = 'labs.{}("buffers", globals(), only="both", delay_ms={})'
    assert inside(names, call.format("check", 5)) == Buffers(rate_mbit=10, only="both", delay_ms=5)
    p, over = inside(names, call.format("grid", [5, 6]))
    assert (p.only, p.rate_mbit, over) == ("both", 10, {"delay_ms": (5.0, 6.0)})
    assert labs.check("buffers", {"SEED": 1}, seed=2) == Buffers(seed=2)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"ony": "both"}, "ony is not a parameter; did you mean only?"),
        ({"ONLY": "both"}, "ONLY is not a parameter; did you mean only?"),
        ({"only": "bth"}, "bth is not a condition; did you mean both?"),
        ({"delay_ms": [5, 6]}, "DELAY_MS = [5, 6] is a list"),
        ({"delay_ms": -1}, "DELAY_MS = -1 is out of range"),
    ],
)
def test_check_refuses_a_wrong_keyword(changed: dict[str, Any], said: str) -> None:
    assert said in refused({}, **changed)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ({"RATE_MBTI": 10}, "RATE_MBTI is not a parameter; did you mean RATE_MBIT?"),
        ({"RATE": 10}, "did you mean RATE_MBIT?"),
        ({"RATE_MBIT": "10"}, 'RATE_MBIT = "10" is text, not a number'),
        ({"RATE_MBIT": -1}, "RATE_MBIT = -1 is out of range"),
        ({"ONLY": "defalt"}, "defalt is not a condition; did you mean default?"),
        ({"KERNEL": 6.1}, "papermill: -r KERNEL 6.1"),
    ],
)
def test_check_refuses_a_wrong_name_or_value(names: dict[str, Any], said: str) -> None:
    assert said in refused(names)


def test_check_refuses_an_unknown_lab() -> None:
    assert 'did you mean "buffers"?' in refused({}, "bufers")


CELL = "RATE_MBIT = 100\nDELAY_MS = 20\nSEED = 3\nRUNS = 'kept'"
MISSPELT = CELL.replace("RATE_MBIT", "RATE_MBTI")
CHECK = 'import labs\np = labs.check("buffers", globals())'
INJECTED = "# Parameters\n"


def executed(*cells: str) -> dict[str, Any]:
    """The globals of a notebook kernel that has executed these cells and is running the check."""
    names: dict[str, Any] = {}
    for cell in cells:
        with suppress(SyntaxError):
            exec("" if cell == CHECK else cell, names)
    return {**names, "In": ["", *cells, CHECK]}


def accepted(*cells: str) -> Buffers:
    found = inside(executed(*cells))
    assert isinstance(found, Buffers)
    return found


ASKED = Buffers(rate_mbit=100, delay_ms=20, seed=3, runs="kept")


@pytest.mark.parametrize(
    "cells",
    [
        (CELL,),
        (CELL, CHECK, "from labs.experiments.nagle.settings import NGINX_HEAD_BYTES", CELL),
        (CELL, CHECK, "from labs.read.theory.nagle import sent as SENT\nREAD = 1; BUFFERS = 2"),
        (MISSPELT, CHECK, CELL),
        (MISSPELT, CHECK, MISSPELT.replace("MBTI", "MIBT"), CHECK, CELL, CHECK),
        (CELL, "BDP = 25e6"),
        (CELL, "RATE = 5\nBDP_BYTES = 1", CHECK),
        ("RATE = 5", CELL),
        (CELL + "\nBDP, rtt_ms = 25e6, 200",),
        ("LOSS_PCT = 1\n" + CELL, CHECK, CELL),
        (CELL, "for LOSS_PCT in (1, 2): pass", CELL),
        (CELL, "LOSS_PCT =", INJECTED + "%magic"),
        ("RATE_MBIT = 100", "DELAY_MS = 20\nSEED = 3\nRUNS = 'kept'"),
        ("RATE_MBIT = 100", "DELAY_MS = 20\nSEED = 3\nRUNS = 'kept'", CHECK) * 2,
        ("SEED = 9", CELL),
        (CELL.replace("SEED = 3", "SEED = 9"), "SEED = 3"),
        (CELL.replace("SEED = 3", "SEED = 9"), INJECTED + "SEED = 3"),
        (INJECTED + "LOSS_PCT = 1\n" + CELL, CHECK, INJECTED + CELL),
        (CELL, INJECTED + "BDP = 1", CHECK, CELL),
        (CELL, INJECTED + "BDP = 1", CHECK, INJECTED + "SEED = 3"),
    ],
)
def test_check_uses_the_last_parameters_cell(cells: tuple[str, ...]) -> None:
    """Run All has the same result as in a new kernel, whatever the kernel has executed."""
    assert accepted(*cells) == ASKED


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ((MISSPELT,), "RATE_MBTI is not a parameter; did you mean RATE_MBIT?"),
        ((CELL, CHECK, MISSPELT), "RATE_MBTI is not a parameter"),
        ((MISSPELT, "BDP = 25e6", CHECK, "SENT = 1"), "RATE_MBTI is not a parameter"),
        (("RATE_MBTI = 100",), "RATE_MBTI is not a parameter"),
        (("RATE_MBIT = 100", CHECK, "RATE_MBTI = 10"), "RATE_MBTI is not a parameter"),
        (("RATE_MBIT = 100", "DELAY = 20\nSEED = 3"), "DELAY is not a parameter"),
        ((CELL, INJECTED + "rate_mbit = 10\n"), "rate_mbit is not a parameter; did you mean R"),
        ((CELL, INJECTED + "BDP = 1"), "BDP is not a parameter; allowed: SIZE, "),
        ((INJECTED + "BDP = 1", CELL), "BDP is not a parameter; allowed: SIZE, "),
        ((CELL, "DELAY_MS = -1"), "DELAY_MS = -1 is out of range"),
    ],
)
def test_check_refuses_a_wrong_name_in_a_parameters_cell(cells: tuple[str, ...], said: str) -> None:
    assert said in refused_inside(executed(*cells))


def test_check_reads_parameters_that_no_cell_assigns() -> None:
    names = {"RATE_MBIT": 100, "READ": 1, "In": ["", "from settings import *", CHECK]}
    assert inside(names) == Buffers(rate_mbit=100)


def test_check_refuses_a_parameter_that_no_cell_ever_assigned() -> None:
    names = {**executed(CELL), "KERNEL": "6.12"}  # as `%run settings.py` leaves it
    assert 'KERNEL = "6.12" was assigned by no cell' in refused_inside(names)
    assert inside({**names, "KERNEL": type, "ONLY": os}) == ASKED


def test_check_gives_a_deleted_parameter_its_default() -> None:
    found = accepted(CELL, CHECK, CELL.replace("DELAY_MS = 20\n", ""))
    assert (found.delay_ms, found.rate_mbit) == (Buffers().delay_ms, 100)


def notebook(path: Path) -> Path:
    """A notebook that checks its parameters and then writes a file `started`."""
    declarations = declared(Buffers).values()
    defaults = "\n".join(f"{of.notebook_name} = {of.default!r}" for of in declarations)
    cells = [
        nbformat.v4.new_code_cell(defaults, metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell(
            'import labs\np = labs.check("buffers", globals())', metadata={"tags": ["check"]}
        ),
        nbformat.v4.new_code_cell("open('started', 'w').write(repr(p))"),
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    book = nbformat.v4.new_notebook(cells=cells, metadata=kernel)
    nbformat.write(book, path)
    return path


@pytest.fixture
def papermill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs the notebook with papermill's command line, in this process, for the words given."""
    from papermill.cli import papermill as command

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    files = (str(notebook(tmp_path / "in.ipynb")), str(tmp_path / "out.ipynb"))

    def run(*words: str) -> Result:
        place = ("--cwd", str(tmp_path), "--no-progress-bar")
        return CliRunner().invoke(command, [*files, *words, *place])

    return run


@needs_papermill
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-p", "RATE_MBTI", "10"), "RATE_MBTI is not a parameter; did you mean RATE_MBIT?"),
        (("-p", "rate_mbit", "10"), "rate_mbit is not a parameter; did you mean RATE_MBIT?"),
        (("-p", "KERNEL", "6.10"), "KERNEL = 6.1 is a number, not text"),
    ],
)
def test_check_stops_papermill_in_the_second_cell(
    tmp_path: Path, papermill: Callable[..., Result], words: tuple[str, ...], said: str
) -> None:
    done = papermill(*words)
    assert done.exit_code != 0
    assert f"BadInput: {said}" in str(done.exception)
    assert not (tmp_path / "started").exists() and not (tmp_path / "runs").exists()
    book = nbformat.read(tmp_path / "out.ipynb", as_version=4)
    (error,) = [
        output
        for cell in book.cells
        for output in cell.get("outputs", ())
        if output.output_type == "error"
    ]
    assert len(error.traceback) == 1 and "\n" not in error.traceback[0]
    (failed,) = [cell for cell in book.cells if error in cell.get("outputs", ())]
    assert failed.metadata.tags == ["check"]


@needs_papermill
def test_check_takes_parameters_of_papermill(
    tmp_path: Path, papermill: Callable[..., Result]
) -> None:
    done = papermill("-p", "RATE_MBIT", "10", "-r", "KERNEL", "6.10")
    assert done.exit_code == 0, done.output
    started = (tmp_path / "started").read_text()
    assert "rate_mbit=10.0" in started and "kernel='6.10'" in started
