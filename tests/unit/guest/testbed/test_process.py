"""Processes of this machine: groups and their members, waiting, collecting."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from labs.errors import Missing, RunFailed
from labs.guest.testbed import process
from labs.guest.testbed.process import LocalProcess, run, spawn
from labs.guest.testbed.process_group import await_end, await_group, members, signal_group


@pytest.fixture
def nothing() -> Iterator[int]:
    fd = os.open("/dev/null", os.O_RDWR)
    yield fd
    os.close(fd)


def started(nothing: int, *argv: str) -> LocalProcess:
    return spawn(argv, stdin=nothing, stdout=nothing, stderr=nothing)


def test_spawn_makes_the_program_lead_its_group(nothing: int) -> None:
    one = started(nothing, "sleep", "1000")
    assert os.getpgid(one.pid) == os.getsid(one.pid) == one.pid
    assert members(one.pid) == [one.pid]
    assert one.stop() == -signal.SIGTERM
    assert members(one.pid) == [] and not signal_group(one.pid, 0)


def test_stop_collects_a_program_that_has_ended(nothing: int) -> None:
    one = started(nothing, "sh", "-c", "exit 3")
    assert one.wait() == 3
    assert Path(f"/proc/{one.pid}").exists() and members(one.pid) == []
    one.signal(signal.SIGTERM)
    assert one.stop() == 3
    assert not Path(f"/proc/{one.pid}").exists()
    one.signal(signal.SIGTERM)
    assert (one.stop(), one.wait()) == (3, 3)


def test_stop_leaves_no_descriptor_open(nothing: int) -> None:
    before = os.listdir("/proc/self/fd")
    for _ in range(5):
        started(nothing, "true").stop()
        run(("echo", "x"), stdin=b"y", timeout_s=60)
        with pytest.raises(Missing):
            run(("no-such-program",), stdin=b"", timeout_s=60)
        with pytest.raises(RunFailed):
            run(("sleep", "9"), stdin=b"", timeout_s=0.01)
    assert os.listdir("/proc/self/fd") == before


def test_members_of_a_program_with_blanks_and_brackets(nothing: int, tmp_path: Path) -> None:
    odd = tmp_path / "a) R 1 (b"
    odd.symlink_to("/bin/sleep")
    one = started(nothing, str(odd), "1000")
    assert members(one.pid) == [one.pid]
    assert one.stop() == -signal.SIGTERM


def test_await_end_of_any_process() -> None:
    child = subprocess.Popen(("sleep", "1000"), start_new_session=True)
    assert not await_end(child.pid, 0.01)
    assert await_group(child.pid, 0.01) == [child.pid]
    child.kill()
    assert await_end(child.pid, 60)
    assert await_group(child.pid, 60) == []
    child.wait()
    assert await_end(child.pid, 0) and await_group(child.pid, 0) == []
    assert not signal_group(child.pid, signal.SIGTERM)


def test_spawn_of_what_cannot_be_executed(tmp_path: Path, nothing: int) -> None:
    assert "apt-get install nginx-light" in str(process.missing("nginx", "server"))
    with pytest.raises(Missing, match="Permission denied"):
        started(nothing, str(tmp_path))


def test_run_lets_a_watcher_wait() -> None:
    seen: list[LocalProcess] = []

    def watch(running: LocalProcess) -> bool:
        seen.append(running)
        return running.wait(60) is not None

    assert run(("echo", "x"), stdin=b"", timeout_s=0, watch=watch).stdout == b"x\n"
    with pytest.raises(
        RunFailed, match=r"^`sleep 1000` on this machine did not end within 7 s and was killed$"
    ):
        run(("sleep", "1000"), stdin=b"", timeout_s=7, watch=lambda running: False)

    def interrupted(running: LocalProcess) -> bool:
        seen.append(running)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(("sleep", "1000"), stdin=b"", timeout_s=7, watch=interrupted)
    assert not any(Path(f"/proc/{one.pid}").exists() for one in seen)
