"""Where a run is from: recorded or live, told without unpacking anything."""

from __future__ import annotations

from pathlib import Path

from labs.read.display.provenance import LIVE, RECORDED, source
from labs.read.runs import archive
from labs.read.runs.archive import run_folders
from labs.read.runs.recorded import folder, runs_of
from labs.read.runs.run import open_run
from tests.run_folders import make_run


def test_source_of_a_recorded_run_and_of_a_copy(tmp_path: Path) -> None:
    recorded = open_run(run_folders(runs_of("nagle"))[0])
    assert source(recorded) == RECORDED
    assert archive.origin(recorded.path) == (folder() / "nagle.tar.xz").resolve()
    assert source(open_run(recorded.path.rename(tmp_path / recorded.name))) == LIVE
    (tmp_path / recorded.name).rename(recorded.path)


def test_source_of_a_live_run_unpacks_nothing(tmp_path: Path) -> None:
    run = open_run(make_run(tmp_path))
    archive._content_of.cache_clear()
    assert source(run) == LIVE
    assert archive._content_of.cache_info().currsize == 0
