"""What is checked of this machine before and after a run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from labs.errors import Missing
from labs.launch.launch import FREE_FILES, check_free_space, check_limits, check_room


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A file system of one page, which holds a folder and no more."""
    folder = tmp_path / "full"
    folder.mkdir()
    options = ("mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=2", "none", str(folder))
    if subprocess.run(options, capture_output=True).returncode:
        pytest.skip("a file system can be mounted only by root")
    (folder / "staging").mkdir()
    yield folder / "staging"
    subprocess.run(("umount", str(folder)), check=True)


def test_check_room_of_a_full_file_system(full: Path) -> None:
    with pytest.raises(Missing):
        check_room(full)


def test_check_room_leaves_nothing(tmp_path: Path) -> None:
    check_room(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("files", "free", "enough"),
    [(0, 0, True), (1000, FREE_FILES, True), (1000, FREE_FILES - 1, False)],
)
def test_check_free_space_counts_files(
    files: int, free: int, enough: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system that does not count its files, such as btrfs, has none in statvfs."""
    found = os.statvfs(tmp_path)
    about = os.statvfs_result((*found[:5], files, free, free, *found[8:]))
    monkeypatch.setattr(os, "statvfs", lambda folder: about)
    if enough:
        check_free_space(tmp_path / "runs")
        return
    with pytest.raises(Missing, match="df -i"):
        check_free_space(tmp_path / "runs")


def test_check_limits_refuses_more_memory_than_any_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    check_limits(256)
    monkeypatch.setattr("resource.getrlimit", lambda kind: (64, 64))
    with pytest.raises(Missing, match=r"^`ulimit -n` allows 64 open files"):
        check_limits(256)
