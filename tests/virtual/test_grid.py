"""A grid of four points: each distinct run once, one table, one chart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import labs
from labs.catalog import find
from labs.cli.__main__ import main
from labs.experiments.buffers.conditions import Parameters as Buffers
from labs.read.runs.archive import run_folders
from labs.studies.grid import varied_points
from tests.kept_runs import kept

OVER = {"rate_mbit": [5, 10], "delay_ms": [10, 50]}
FLAGS = ["--rate-mbit", "5,10", "--delay-ms", "10,50", "--transfer-mib", "1"]


def test_grid_performs_each_distinct_run_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`near` has a delay of its own, so it is one run per rate."""
    p = Buffers(only="both,near", transfer_mib=1, limit_s=2, runs=str(tmp_path))
    _, points = varied_points(p, OVER)
    command = ["run", "buffers", "--only", p.only, "--limit-s", "2", *FLAGS, "--into", p.runs]
    assert main([*command, "--dry-run", "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert (len(planned["points"]), planned["runs"], planned["existing"]) == (4, 6, 0)
    with kept(find("buffers"), points):
        grid = labs.study(p, over=OVER)
    assert len(list(run_folders(tmp_path))) == len(grid.keys) == 6
    names = {one["run"] for point in planned["points"] for one in point["conditions"]}
    assert {one.name for one in run_folders(tmp_path)} == names
    table = grid.results()
    assert len(table) == 8 and list(table)[:3] == ["rate_mbit", "delay_ms", "condition"]
    both = table[table["condition"] == "both"]
    assert both["run_rate_mbit"].tolist() == pytest.approx([5, 5, 10, 10], rel=0.01)
    assert both["rtt_ms"].tolist() == pytest.approx([10, 50, 10, 50], rel=0.01)
    assert both["link_ok"].all() and grid.lacking.empty
    assert grid.chart().layout.meta["table"]["heads"][0] == "Rate (Mbit/s)"
    _same_on_the_command_line(command, len(table), capsys)


def _same_on_the_command_line(
    command: list[str], rows: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is performed again; a kernel that is not built does not hide the others."""
    assert main([*command, "--json", "--kernel", "6.1,5.4"]) == 3
    said = json.loads(capsys.readouterr().out)
    assert list(said["axes"]) == ["rate_mbit", "delay_ms", "kernel"]
    assert len(said["results"]) == rows and said["runs"] == 6
    assert [one["values"]["kernel"] for one in said["lacking"]] == ["5.4"] * 4
    same = [row["condition"] for row in said["results"] if "same run" in row["notes"]]
    assert same == ["near"] * 4
