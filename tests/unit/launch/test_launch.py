"""From a plan to its runs: what is asked of the machines, and what is performed."""

from __future__ import annotations

from pathlib import Path

import pytest

from labs.catalog import find
from labs.errors import Missing
from labs.experiments.buffers.parameters import Buffers
from labs.launch import inventory, plan
from labs.launch.launch import run


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
