"""Where a run is from: recorded or live, told without unpacking anything."""

from __future__ import annotations

import shutil
from pathlib import Path

from pandas import DataFrame

from labs.read.display.provenance import LIVE, RECORDED, of_table, source
from labs.read.runs import archive
from labs.read.runs.archive import run_folders
from labs.read.runs.recorded import folder, runs_of
from labs.read.runs.run import open_run
from tests.run_folders import make_run


def test_source_of_a_recorded_run_and_of_a_copy(tmp_path: Path) -> None:
    recorded = open_run(run_folders(runs_of("nagle"))[0])
    assert source(recorded) == RECORDED
    assert archive.origin(recorded.path) == (folder() / "nagle.tar.xz").resolve()
    copy = shutil.copytree(recorded.path, tmp_path / recorded.name)
    assert source(open_run(copy)) == LIVE


def test_source_of_a_live_run_unpacks_nothing(tmp_path: Path) -> None:
    run = open_run(make_run(tmp_path))
    archive._content_of.cache_clear()
    assert source(run) == LIVE
    assert archive._content_of.cache_info().currsize == 0


def test_of_table_names_the_paths_of_flows_and_not_their_wires() -> None:
    row = {
        "condition": "a",
        "link_ok": True,
        "link_shaped": False,
        "link_asked": "20 Mbit/s, 40 ms",
    }
    row |= {"rtt_ms": 0.003, "rate_mbit": float("nan"), "testbed": "virtual", "kernel": "6.1.192"}
    row |= {"source": LIVE}
    other = row | {"condition": "b", "link_asked": "50 Mbit/s, 40 ms"}
    said = "virtual · Linux 6.1.192 · path: 20 Mbit/s, 40 ms; 50 Mbit/s, 40 ms · live"
    assert of_table(DataFrame([row, row, other])) == said
    wrong = DataFrame([row, other | {"link_ok": False}])
    assert "LINK NOT AS ASKED: b" in of_table(wrong)
    unshaped = DataFrame([row | {"link_asked": "not shaped"}])
    assert "link as asked (not shaped)" in of_table(unshaped)
