"""From a plan to its runs: what is asked of the machines, and what is performed."""

from __future__ import annotations

from pathlib import Path

import pytest

from labs.catalog import find
from labs.errors import Missing, RunFailed
from labs.experiments.buffers.parameters import Buffers
from labs.experiments.nagle.parameters import Nagle
from labs.launch import inventory, launch, plan
from labs.launch.launch import run

PARSE = Path(__file__).parents[2] / "fixtures" / "parse"


def test_run_inspects_the_machines_once_per_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process goes on, as a notebook does, while its machines are made again."""
    asked = []

    def reach() -> Path:
        asked.append("reach")
        return tmp_path

    def inspect(ssh_config: Path, names: tuple[str, ...]) -> None:
        asked.append("inspect")
        raise Missing("the machines are gone")

    monkeypatch.setattr(plan, "reach", reach)
    monkeypatch.setattr(inventory, "inspect", inspect)
    for _ in range(2):
        with pytest.raises(Missing, match="gone"):
            run(find("buffers"), Buffers(testbed="vagrant", only="default", runs=str(tmp_path)))
    assert asked == ["reach", "inspect"] * 2


def test_make_seals_no_run_whose_output_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program on the host wrote what its parser refuses; nothing of the run is kept."""
    (planned,) = plan.plan(find("nagle"), Nagle(testbed="namespaces", only="off"))
    driving = plan.code_of(planned.lab, "namespaces")
    monkeypatch.setattr(inventory, "versions", lambda names, interpreter: {})

    def write(argv: tuple[str, ...], staging: Path, on_line: object) -> None:
        (staging / "client").mkdir()
        (staging / "client/ab.txt").write_text(written)

    monkeypatch.setattr(launch, "_here", write)
    written = "ab: command not found"
    with pytest.raises(RunFailed, match=r"nagle off: .* client/ab\.txt: not the output of ab"):
        launch.make(planned, driving, tmp_path, None, print)
    assert list(tmp_path.iterdir()) == []
    written = (PARSE / "ab-keepalive.txt").read_text()
    assert launch.make(planned, driving, tmp_path, None, print).is_dir()
