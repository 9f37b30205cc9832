"""`labs run` under limits of the shell, with closed streams, and on a file system without room."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from labs.launch.launch import FREE_FILES

ROOT = Path(__file__).resolve().parents[2]


def labs_run(setup: str, runs: Path) -> subprocess.CompletedProcess[str]:
    """Run one condition of `nagle` after a line of shell, which may end in redirections."""
    words = ["-m", "labs.cli", "run", "nagle", "--only", "off", "--requests", "100", "--into"]
    return subprocess.run(
        ("sh", "-c", setup, "sh", sys.executable, *words, str(runs)),
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.mark.parametrize("limit", ["-n 20", "-f 1000", "-v 1000000"])
def test_run_refuses_a_low_limit_of_the_shell(limit: str, tmp_path: Path) -> None:
    done = labs_run(f'ulimit {limit}; exec "$@"', tmp_path / "runs")
    assert done.returncode == 3, done.stderr
    assert len(done.stderr.splitlines()) == 1 and f"ulimit {limit.split()[0]}" in done.stderr
    assert list((tmp_path / "runs").glob("nagle-*")) == []


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_run_works_with_closed_streams(closed: str, tmp_path: Path) -> None:
    done = labs_run(f'exec "$@" {closed}', tmp_path / "runs")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert len(list((tmp_path / "runs").glob("nagle-off-*"))) == 1


@pytest.fixture
def few_files(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for fewer files than a run may have."""
    folder = tmp_path / "few"
    folder.mkdir()
    options = f"size=400m,nr_inodes={FREE_FILES}"
    mounted = subprocess.run(("mount", "-t", "tmpfs", "-o", options, "none", str(folder)))
    if mounted.returncode:
        pytest.skip("a file system can be mounted only by root")
    yield folder
    subprocess.run(("umount", str(folder)), check=True)


def test_run_refuses_a_file_system_without_inodes(few_files: Path) -> None:
    done = labs_run('exec "$@"', few_files / "runs")
    assert done.returncode == 3, done.stderr
    assert len(done.stderr.splitlines()) == 1 and "df -i" in done.stderr
