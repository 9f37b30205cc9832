"""Signals from this machine to a program of the guest: the run fails, or nothing happened."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from labs.drive.kernel import store
from labs.drive.kernel.boot import EITHER, PTRACE, SECCOMP, boot
from labs.errors import RunFailed
from labs.guest.programs.init import INSIDE_CODE, PYTHON
from tests.conftest import DEFAULT_KERNEL
from tests.virtual.roots import root_with

ROOT = Path(__file__).resolve().parents[2]
KERNELS = [
    DEFAULT_KERNEL,
    *(pytest.param(name, marks=pytest.mark.kernel(name)) for name in ("5.10", "6.12", "7.2")),
]
SHORT, LONG = 10**7, 4 * 10**7
"""The steps of a busy program that goes on while a few signals arrive, or 58 of them."""
MANY = 10
BUSY = """
open("busy", "w").close()
for _ in range({steps}):
    pass
"""
# A run whose experiment does not notice that one of its programs was killed.
PROGRAM = f"""
import sys
sys.path.insert(0, {INSIDE_CODE!r})
from labs.guest.testbed.link import Link
from labs.guest.testbed.virtual import open_testbed
with open_testbed(Link(), None) as testbed:
    busy = testbed.server.start(({PYTHON!r}, "-ISc", sys.argv[1]))
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


def signal_busy_program(
    memory: Path, busy: Path, numbers: Sequence[signal.Signals], sent: list[signal.Signals]
) -> None:
    """Wait for the busy program, the only one that uses CPU time, and send it signals; note those
    that were sent."""
    while not busy.exists():
        time.sleep(0.01)
    before = cpu_ticks(memory)
    while not (used := [pid for pid, t in cpu_ticks(memory).items() if t - before.get(pid, 0) > 4]):
        time.sleep(0.01)
    for number in numbers:
        with contextlib.suppress(ProcessLookupError):  # the first one ended it
            os.kill(used[0], number)
            sent.append(number)
        time.sleep(0.05)


def signal_kernel(
    memory: Path, busy: Path, numbers: Sequence[signal.Signals], sent: list[signal.Signals]
) -> None:
    """Wait for the busy program, and send the kernel's own process, the oldest, these signals; note
    those that were sent."""
    while not busy.exists():
        time.sleep(0.01)
    kernel = min(cpu_ticks(memory))
    for number in numbers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(kernel, number)
            sent.append(number)
        time.sleep(0.03)


def busy_run(
    version: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *numbers: signal.Signals,
    send: Callable[
        [Path, Path, Sequence[signal.Signals], list[signal.Signals]], None
    ] = signal_busy_program,
    mode: str = PTRACE,
) -> list[str]:
    """Boot the run and send its busy program these signals; the lines of the console. All were sent
    if the run ended well."""
    steps = SHORT if len(numbers) < MANY else LONG
    memory, staging = folder / "memory", folder / "staging"
    memory.mkdir()
    staging.mkdir()
    monkeypatch.setenv("LABS_MEMORY_DIR", str(memory))
    lines: list[str] = []
    sent: list[signal.Signals] = []
    sender = threading.Thread(
        target=send, args=(memory, staging / "busy", numbers, sent), daemon=True
    )
    if numbers:
        sender.start()
    try:
        boot(
            store.find(version).path,
            root=root_with(),
            staging=staging,
            code=ROOT,
            argv=(PYTHON, "-I", "-S", "-c", PROGRAM, BUSY.format(steps=steps)),
            memory_mib=256,
            on_line=lines.append,
            modes=(mode,),
        )
    finally:
        (folder / "lines").write_text("\n".join(lines))
    assert sent == list(numbers)
    return lines


@pytest.mark.parametrize("mode", EITHER)
@pytest.mark.parametrize("version", KERNELS)
def test_run_without_a_signal_ends_well(
    version: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "ended with 0" in busy_run(version, tmp_path, monkeypatch, mode=mode)


@pytest.mark.parametrize("version", KERNELS)
@pytest.mark.parametrize("numbers", [(signal.SIGSTOP, signal.SIGCONT), (signal.SIGCONT,)])
def test_pause_of_a_program_has_no_effect_in_seccomp_mode(
    version: str,
    numbers: tuple[signal.Signals, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "ended with 0" in busy_run(version, tmp_path, monkeypatch, *numbers, mode=SECCOMP)


@pytest.mark.parametrize("version", KERNELS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGSEGV, signal.SIGTRAP, signal.SIGSYS])
def test_run_fails_when_a_program_was_sent_a_signal_in_seccomp_mode(
    version: str, number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 7.2 may notice the loss as it waits for the program, and says so without the signal.
    words = "ended a program of the virtual kernel: somebody|failed to wait for stub"
    with pytest.raises(RunFailed, match=words):
        busy_run(version, tmp_path, monkeypatch, number, mode=SECCOMP)
    assert f"ended with {-signal.SIGSEGV}" in (tmp_path / "lines").read_text()


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
    with pytest.raises(RunFailed, match=f"{numbers[0].name} ended a program of the virtual"):
        busy_run(version, tmp_path, monkeypatch, *numbers)
    # The experiment itself did not fail: its program is gone, and it went on.
    assert f"ended with {-signal.SIGSEGV}" in (tmp_path / "lines").read_text()


@pytest.mark.parametrize("version", KERNELS)
@pytest.mark.parametrize("count", [1, 58])
def test_run_fails_when_the_kernel_was_sent_an_alarm(
    version: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """58 of them changed the bytes of a run under an equal key before patches/own-alarms.patch."""
    with pytest.raises(RunFailed, match=rf"process {os.getpid()} of user {os.getuid()} sent SIGA"):
        busy_run(version, tmp_path, monkeypatch, *[signal.SIGALRM] * count, send=signal_kernel)
    assert list((tmp_path / "memory").iterdir()) == []


@pytest.mark.parametrize("version", KERNELS)
def test_run_ends_well_after_signals_that_the_kernel_ignores(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harmless = [signal.SIGIO, signal.SIGCHLD, signal.SIGURG, signal.SIGSTOP, signal.SIGCONT]
    lines = busy_run(version, tmp_path, monkeypatch, *harmless, send=signal_kernel)
    assert "ended with 0" in lines


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (signal.SIGKILL, "SIGKILL ended it, which another process"),
        (signal.SIGTERM, "its exit code was 1, as after SIGTERM"),
        (signal.SIGBUS, "SIGABRT ended it"),  # the kernel panics, and says so on its console
    ],
)
def test_run_says_how_the_kernel_ended(
    number: signal.Signals, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RunFailed, match=f"without a result: {words}") as raised:
        busy_run(DEFAULT_KERNEL, tmp_path, monkeypatch, number, send=signal_kernel)
    assert "\n" not in str(raised.value) and "MiB of memory" in str(raised.value)
