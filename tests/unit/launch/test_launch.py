"""From a plan to its runs: what is asked of the machines, and what is performed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from labs.catalog import find
from labs.drive.kernel import programs
from labs.drive.testbed import vagrant_up
from labs.drive.testbeds import TESTBEDS
from labs.errors import Missing, RunFailed
from labs.experiments.buffers.conditions import Parameters as Buffers
from labs.experiments.nagle.conditions import Parameters as Nagle
from labs.launch import inventory, make, plan
from labs.launch.launch import FREE_FILES, check_free_space, check_limits, check_platform, run
from labs.launch.make import check_room, without_colours
from labs.launch.wanted import Job, Opened, Wanted

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

    monkeypatch.setattr(vagrant_up, "reach", reach)
    monkeypatch.setattr(inventory, "inspect", inspect)
    for _ in range(2):
        with pytest.raises(Missing, match="gone"):
            run(find("buffers"), Buffers(testbed="vagrant", only="default", runs=str(tmp_path)))
    assert asked == ["reach", "inspect"] * 2


def test_without_colours_leaves_a_tracebacks_words() -> None:
    """The last line of a traceback on the console of a guest with Python 3.13."""
    line = "\x1b[1;35mlabs.errors.RunFailed\x1b[0m: \x1b[35mSIGSTOP was sent\x1b[0m | labs-exit 1"
    assert without_colours(line) == "labs.errors.RunFailed: SIGSTOP was sent | labs-exit 1"


def test_make_seals_no_run_whose_output_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program on the host wrote what its parser refuses; nothing of the run is kept."""
    (planned,) = plan.plan(find("nagle"), Nagle(testbed="namespaces", only="off"))
    job = Job(planned, Opened(tmp_path), Wanted())
    monkeypatch.setattr(programs, "versions", lambda names, interpreter: {})

    def write(argv: tuple[str, ...], staging: Path, on_line: object) -> None:
        (staging / "client").mkdir()
        (staging / "client/ab.txt").write_text(written)

    monkeypatch.setattr(make, "_here", write)
    written = "ab: command not found"
    with pytest.raises(RunFailed, match=r"nagle off: .* client/ab\.txt: not the output of ab"):
        make.make(job, None, print)
    assert list(tmp_path.iterdir()) == []
    written = (PARSE / "ab-keepalive.txt").read_text()
    assert make.make(job, None, print).is_dir()


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


@pytest.mark.parametrize(
    ("system", "testbed", "possible"),
    [
        ("linux", "virtual", True),
        ("darwin", "vagrant", True),
        ("darwin", "virtual", False),
        ("win32", "vagrant", False),
        ("win32", "virtual", False),
        ("emscripten", "namespaces", False),
    ],
)
def test_check_platform_names_the_recorded_runs(
    monkeypatch: pytest.MonkeyPatch, system: str, testbed: str, possible: bool
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    if possible:
        check_platform(TESTBEDS[testbed])
        return
    with pytest.raises(Missing, match="--testbed recorded"):
        check_platform(TESTBEDS[testbed])


def test_check_limits_refuses_more_memory_than_any_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    check_limits(256)
    monkeypatch.setattr("resource.getrlimit", lambda kind: (64, 64))
    with pytest.raises(Missing, match=r"^`ulimit -n` allows 64 open files"):
        check_limits(256)
