"""A boot that would never end is ended, and one that makes progress is not."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from labs.drive.kernel.watchdog import CLOCK, COUNTS, Gauges, Limits, Reading, addresses
from tests.virtual.booting import ON_EACH_KERNEL, SPIN, ends_badly, inside, processes

# `test -e` makes bash read the clock.
POLL = "echo about to poll; while [ ! -e /nonsuch ]; do :; done"
TICKS = "while sleep 0.001; do echo about to tick; done & while [ ! -e /nonsuch ]; do :; done"
SHORT = Limits(spin_cpu_s=2.0, silent_virtual_s=600.0, still_s=2.0)
NO_ENDINGS = {
    "a spin": (
        SPIN,
        "spins: in 2 s of CPU time the virtual clock did not advance",
        "about to spin",
    ),
    "a poll": (POLL, "polls: in 2 s of CPU time the virtual clock advanced by 0.", "about to poll"),
    "a poll beside a line per ms": (TICKS, "polls: in 2 s of CPU time", "about to tick"),
    "a sleep": (
        "echo asleep; sleep infinity",
        "nothing was printed for 600 s of virtual time",
        "asleep",
    ),
}


@pytest.mark.parametrize("ending", NO_ENDINGS)
def test_boot_ends_what_never_ends_and_says_why(
    kernel: Path, memory: Path, staging: Path, ending: str
) -> None:
    script, *words = NO_ENDINGS[ending]
    ends_badly(kernel, memory, staging, script, *words, limits=SHORT)


def test_limits_end_a_spin_within_a_minute() -> None:
    """The limit is CPU time; a guest that spins alone on a processor uses nearly all of it."""
    assert Limits().spin_cpu_s <= 45


def test_boot_ends_a_kernel_that_uses_no_cpu_time(
    memory: Path, staging: Path, tmp_path: Path
) -> None:
    (tmp_path / "linux").write_text("#!/bin/sh\necho I wait\nexec sleep 1000\n")
    (tmp_path / "linux").chmod(0o755)
    ends_badly(
        tmp_path / "linux",
        memory,
        staging,
        "true",
        "used no CPU time for 2 s",
        "I wait",
        limits=SHORT,
    )


# Writes of 2 KB on the loopback device cost much CPU time and next to no virtual time.
BUSY = """
import socket, threading
listener = socket.create_server(("127.0.0.1", 80))
sender = socket.create_connection(("127.0.0.1", 80))
sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
receiver = listener.accept()[0]
def send():
    for _ in range(200_000):
        sender.sendall(bytes(2048))
    sender.close()
threading.Thread(target=send).start()
while receiver.recv(65536):
    pass
"""


def test_boot_leaves_a_slow_run_that_makes_progress(
    kernel: Path, memory: Path, staging: Path
) -> None:
    """It uses more CPU time than a spin may, while the clock hardly moves, and prints nothing."""
    (staging / "busy.py").write_text(BUSY)
    limits = Limits(spin_cpu_s=0.5)
    before = os.times()
    inside(kernel, staging, "ip link set lo up; exec python3 -IS busy.py", limits=limits)
    after = os.times()
    used_s = (
        after.children_user - before.children_user + after.children_system - before.children_system
    )
    assert used_s > 2 * limits.spin_cpu_s


def test_boot_survives_a_pause(kernel: Path, memory: Path, staging: Path) -> None:
    """Its kernel, which all programs inside wait for, is stopped for longer than it may spin or
    stand still. (Signals to the programs would reach the guest.)"""
    lines: list[str] = []

    def on_line(line: str) -> None:
        lines.append(line)
        if line == "about to be stopped":
            program = os.getpgid(processes(memory)[0])
            os.kill(program, signal.SIGSTOP)
            threading.Timer(3 * SHORT.still_s, os.kill, (program, signal.SIGCONT)).start()

    begin = time.monotonic()
    inside(
        kernel,
        staging,
        "echo about to be stopped; for i in {1..100}; do sleep 1; done; echo went on",
        on_line=on_line,
        limits=SHORT,
    )
    assert "went on" in lines
    assert time.monotonic() - begin > 3 * SHORT.still_s


def test_boot_judges_a_kernel_without_symbols_by_its_lines(
    kernel: Path, memory: Path, staging: Path, tmp_path: Path
) -> None:
    stripped = tmp_path / "linux"
    subprocess.run(("strip", "-o", str(stripped), str(kernel)), check=True)
    ends_badly(
        stripped,
        memory,
        staging,
        SPIN,
        "printed nothing for 2 s of CPU time",
        "about to spin",
        limits=SHORT,
    )
    assert "fine" in inside(stripped, staging, "echo fine", limits=SHORT)


@ON_EACH_KERNEL
def test_gauges_read_the_clock_and_the_network_from_outside(
    kernel: Path, memory: Path, staging: Path
) -> None:
    """`/proc/uptime` and `/proc/softirqs` show the same figures inside."""
    listed = subprocess.run(("nm", str(kernel)), capture_output=True, text=True, check=True).stdout
    symbols = {
        name: int(address, 16)
        for address, _, name in (
            line.split() for line in listed.splitlines() if len(line.split()) == 3
        )
    }
    with kernel.open("rb") as program:
        assert addresses(program.read(), (CLOCK, COUNTS, "nonsuch")) == {
            name: symbols[name] for name in (CLOCK, COUNTS)
        }
    read: list[Reading | None] = []

    def on_line(line: str) -> None:
        if line == "read me":
            read.append(Gauges(kernel.read_bytes()).read(min(processes(memory))))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        inside(
            kernel,
            staging,
            "ip link set lo up; sleep 100; echo x >/dev/udp/127.0.0.1/9; "
            "cat /proc/uptime >uptime; cat /proc/softirqs >softirqs; echo read me; "
            "while :; do :; done",
            on_line=on_line,
        )
    uptime_s = float((staging / "uptime").read_text().split()[0])
    counts = [line.split() for line in (staging / "softirqs").read_text().splitlines()]
    network = sum(int(count) for name, count in counts[1:] if name.startswith("NET_"))
    assert read[0] is not None and 100 <= uptime_s <= read[0].clock_ns / 1e9 < uptime_s + 1
    assert read[0].softirqs == network > 0
