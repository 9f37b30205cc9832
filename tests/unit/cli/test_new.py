"""`labs new` writes a lab that is short, complete and its writer's own."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from labs import catalog as catalogue
from labs.cli.__main__ import main
from labs.cli.new import WITH_FLOWS, source


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(catalogue, "_of_files", {})


def test_source_is_short_and_names_the_lab() -> None:
    text = source("mylab")
    assert len(text.splitlines()) <= 62
    assert max(map(len, text.splitlines())) <= 100
    ast.parse(text)
    assert "./mylab.py" in text and "new_lab" not in text


def test_new_writes_a_lab(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "mylab"]) == 0
    assert capsys.readouterr().out == "wrote ./mylab.py. To run it: labs run ./mylab.py\n"
    assert (tmp_path / "mylab.py").read_text() == source("mylab")
    assert main(["run", "./mylab.py", "--file-kib", "7", "--dry-run", "--json"]) == 0
    steps = json.loads(capsys.readouterr().out)
    assert steps["lab"] == "mylab" and steps["parameters"]["file_kib"] == 7
    assert [condition["condition"] for condition in steps["conditions"]] == ["near", "far"]


def test_new_with_flows_writes_a_lab_with_flows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "mylab", "--flows"]) == 0
    capsys.readouterr()
    text = (tmp_path / "mylab.py").read_text()
    assert text == source("mylab", WITH_FLOWS)
    assert len(text.splitlines()) <= 60 and "new_flows" not in text
    assert main(["run", "./mylab.py", "--rate-mbit", "7", "--dry-run", "--json"]) == 0
    steps = json.loads(capsys.readouterr().out)
    assert [condition["condition"] for condition in steps["conditions"]] == ["fifo", "fq-codel"]
    # 7 Mbit/s times 40 ms are 35,000 bytes: 23 frames.
    assert '"pfifo", "limit", "23"' in json.dumps(steps)


def test_new_overwrites_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mylab.py").write_text("mine")
    assert main(["new", "mylab"]) == 2
    assert "./mylab.py already exists" in capsys.readouterr().err
    assert (tmp_path / "mylab.py").read_text() == "mine"


def test_new_dry_run_prints_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "mylab.py", "--dry-run"]) == 0
    assert capsys.readouterr().out == source("mylab")
    assert main(["new", "mylab", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["written"] is False
    assert list(tmp_path.iterdir()) == []
