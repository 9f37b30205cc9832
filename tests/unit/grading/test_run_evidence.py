"""The runs that answers are checked against: the student's own first."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from labs.catalog import find
from labs.grading.run_evidence import RunEvidence, own_runs, recorded_runs

BUFFERS = find("buffers")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one run of a student: `default` on the lab's link."""
    (run,) = [
        run
        for run in recorded_runs("buffers")
        if (run.condition, run.link.asked.delay_ms) == ("default", 200.0)
        and run.link.asked.rate_mbit == 1000.0
        and run.kernel.release.startswith("6.1.")
    ]
    shutil.copytree(run.path, tmp_path / run.name)
    return tmp_path


def test_run_is_the_students_own_if_there_is_one(folder: Path) -> None:
    found = RunEvidence(BUFFERS, "6.1", (folder,)).run("default")
    assert found is not None and found.path.parent == folder


def test_run_with_other_parameters_is_recorded(folder: Path) -> None:
    found = RunEvidence(BUFFERS, "6.1", (folder,)).run("default", delay_ms=22.0)
    assert found is not None and found.path.parent != folder
    assert found.link.asked.delay_ms == 22.0


def test_run_that_nobody_has_is_none(folder: Path) -> None:
    assert RunEvidence(BUFFERS, "6.1", (folder,)).run("default", delay_ms=23.0) is None


def test_own_runs_omit_damaged_ones_and_missing_folders(folder: Path) -> None:
    assert len(own_runs("buffers", folder)) == 1
    assert own_runs("nagle", folder) == []
    next(folder.glob("*/run.json")).write_bytes(b"{}")
    assert own_runs("buffers", folder) == []
    assert own_runs("buffers", folder / "missing") == []
