"""`labs student`: what it writes, what it keeps, and what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labs.cli.__main__ import main
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
    (found,) = json.loads(capsys.readouterr().out)
    assert found == {"path": str(into / "00-start-here.ipynb"), "outcome": "written"}
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
