"""Signals from this machine to a program of the guest: the run fails, or nothing happened."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from labs.drive.kernel import store
from labs.drive.kernel.boot import boot
from labs.drive.programs.init import INSIDE_CODE, PYTHON
from labs.errors import RunFailed
from tests.conftest import DEFAULT_KERNEL
from tests.virtual.roots import root_with

ROOT = Path(__file__).resolve().parents[2]
KERNELS = [
    DEFAULT_KERNEL,
    *(pytest.param(name, marks=pytest.mark.kernel(name)) for name in ("5.10", "6.12", "7.2")),
]
BUSY = """
open("busy", "w").close()
for _ in range(10**8):
    pass
"""
# A run whose experiment does not notice that one of its programs was killed.
PROGRAM = f"""
import sys
sys.path.insert(0, {INSIDE_CODE!r})
from labs.drive.testbed.link import Link
from labs.drive.testbed.virtual import open_testbed
with open_testbed(Link(), None) as testbed:
    busy = testbed.server.start(({PYTHON!r}, "-ISc", {BUSY!r}))
    print("ended with", busy.wait(), flush=True)
"""


def cpu_ticks(memory: Path) -> dict[int, int]:
    """The CPU time of each process of the kernel whose memory is in this folder."""
    found = {}
    for path in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if path.name.isdigit() and os.readlink(path / "cwd").startswith(str(memory)):
                fields = (path / "stat").read_text().rpartition(")")[2].split()
                found[int(path.name)] = int(fields[11])  # utime, field 14 of proc_pid_stat(5)
    return found


def signal_busy_program(memory: Path, busy: Path, numbers: Sequence[signal.Signals]) -> None:
    """Wait for the busy program, the only one that uses CPU time, and send it signals."""
    while not busy.exists():
        time.sleep(0.01)
    before = cpu_ticks(memory)
    while not (used := [pid for pid, t in cpu_ticks(memory).items() if t - before.get(pid, 0) > 4]):
        time.sleep(0.01)
    for number in numbers:
        with contextlib.suppress(ProcessLookupError):  # the first one ended it
            os.kill(used[0], number)
        time.sleep(0.05)


def busy_run(
    version: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *numbers: signal.Signals
) -> list[str]:
    """Boot the run and send its busy program these signals; the lines of the console."""
    memory, staging = folder / "memory", folder / "staging"
    memory.mkdir()
    staging.mkdir()
    monkeypatch.setenv("LABS_MEMORY_DIR", str(memory))
    lines: list[str] = []
    sender = threading.Thread(
        target=signal_busy_program, args=(memory, staging / "busy", numbers), daemon=True
    )
    if numbers:
        sender.start()
    try:
        boot(
            store.find(version).path,
            root=root_with(),
            staging=staging,
            code=ROOT,
            argv=(PYTHON, "-I", "-S", "-c", PROGRAM),
            memory_mib=256,
            on_line=lines.append,
        )
    finally:
        (folder / "lines").write_text("\n".join(lines))
    return lines


@pytest.mark.parametrize("version", KERNELS)
def test_run_without_a_signal_ends_well(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "ended with 0" in busy_run(version, tmp_path, monkeypatch)


@pytest.mark.parametrize("version", KERNELS)
@pytest.mark.parametrize(
    "numbers", [(signal.SIGSTOP, signal.SIGCONT), (signal.SIGCONT,), (signal.SIGTERM,)]
)
def test_run_fails_when_a_program_was_sent_a_signal(
    version: str,
    numbers: tuple[signal.Signals, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(RunFailed, match=f"{numbers[0].name} was sent to a program"):
        busy_run(version, tmp_path, monkeypatch, *numbers)
    # The experiment itself did not fail: its program is gone, and it went on.
    assert f"ended with {-signal.SIGSEGV}" in (tmp_path / "lines").read_text()
