"""`labs student`: what it writes, what it keeps, and what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labs.cli.__main__ import main
from labs.read.notebook_file import parameters, read_notebook
from tests.student_work import NOTEBOOKS

START = str(NOTEBOOKS / "00-start-here.ipynb")


def test_student_writes_then_keeps_an_edited_copy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "00-start-here.ipynb"
    assert main(["student", START, "--into", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{path}: written\n"
    path.write_text(path.read_text("utf-8").replace("bdp_mib = None", "bdp_mib = 23.8"), "utf-8")
    edited = path.read_bytes()
    assert main(["student", START, "--into", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith(f"{path}: kept, because it has been edited.")
    assert path.read_bytes() == edited


def test_student_json_and_dry_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    into = tmp_path / "copies"
    assert main(["student", START, "--into", str(into), "--dry-run", "--json"]) == 0
    (copied,) = json.loads(capsys.readouterr().out)
    assert copied == {"path": str(into / "00-start-here.ipynb"), "outcome": "written"}
    assert not into.exists()


def test_student_of_a_missing_notebook_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["student", str(tmp_path / "x.ipynb"), "--into", str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    "cell",
    [
        {"cell_type": "code", "metadata": {}},
        {"cell_type": "code", "metadata": "x", "source": ""},
        {"cell_type": "code", "metadata": {"tags": 5}, "source": ""},
        {"cell_type": "code", "metadata": {}, "source": {"a": 1}},
        ["a"],
    ],
)
def test_student_of_a_damaged_notebook_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cell: object
) -> None:
    book = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "x.ipynb").write_text(json.dumps(book), "utf-8")
    assert main(["student", str(tmp_path / "x.ipynb"), "--into", str(tmp_path / "copies")]) == 6
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "copies").exists()


def parameters_of(path: Path) -> dict[str, object]:
    return parameters(read_notebook(path))


def test_student_presets_fit_the_classroom(tmp_path: Path) -> None:
    """KERNEL where a notebook has one kernel; the link where it has a rate and a delay."""
    names = ("00-start-here", "03-nagle-and-delayed-ack", "06-kernels-compared", "10-batch-report")
    notebooks = [str(NOTEBOOKS / f"{name}.ipynb") for name in names]
    words = ["--set", "KERNEL=6.12", "--link", "100x40", "--recorded"]
    assert main(["student", *notebooks, "--into", str(tmp_path / "copies"), *words]) == 0
    start, nagle, compared, _ = (
        parameters_of(tmp_path / "copies" / f"{name}.ipynb") for name in names
    )
    assert (start["KERNEL"], start["RATE_MBIT"], start["DELAY_MS"]) == ("6.12", 100, 40)
    assert (nagle["KERNEL"], nagle["DELAY_MS"], nagle["TESTBED"]) == ("6.12", 0, "recorded")
    assert compared["KERNEL"] == "6.1,5.10,6.12,7.2"
    text = (tmp_path / "copies" / "00-start-here.ipynb").read_text()
    assert 'KERNEL = \\"6.12\\"                 # the kernel' in text


@pytest.mark.parametrize(
    ("words", "phrase"),
    [
        (["--set", "KERNAL=6.1"], "did you mean KERNEL?"),
        (["--set", "KERNEL"], "NAME=VALUE"),
        (["--set", "KERNEL=x y"], "KERNEL"),
        (["--set", "DELAY_MS=-1"], "out of range"),
        (["--set", "DELAY_MS=1; import os"], "Allowed: a number"),
        (["--set", "DELAY_MS=exit()"], "Allowed: a number"),
        (["--link", "100"], "100x40"),
        (["--seeds", "class.csv"], "--seeds is not a flag"),
    ],
)
def test_student_refuses_presets_in_one_line(
    words: list[str], phrase: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["student", START, "--into", str(tmp_path), *words]) in (2, 6)
    (line,) = capsys.readouterr().err.splitlines()
    assert phrase in line
    assert list(tmp_path.iterdir()) == []
