"""What ends a guest: CPU time without progress, silence, standing still; and what does not."""

from __future__ import annotations

import ctypes
import mmap
import os
from functools import partial
from pathlib import Path

import pytest

from labs.drive.kernel import watchdog
from labs.drive.kernel.watchdog import (
    CLOCK,
    COUNTS,
    NETWORK_SOFTIRQS,
    Gauges,
    Limits,
    Reading,
    Watchdog,
    addresses,
)

SPINNING, SILENT, STILL = 30, 3600, 600
LIMITS = Limits(spin_cpu_s=SPINNING, silent_virtual_s=SILENT, still_s=STILL)
LOOKS = 2000


class Guest:
    """A course of looks, one per second, at a guest that does the same in each."""

    def __init__(
        self,
        virtual_s: float = 0.0,
        softirqs: int = 0,
        cpu_s: float = 0.0,
        *,
        printed: bool = False,
        stopped: bool = False,
        readable: bool = True,
    ) -> None:
        self.watchdog = Watchdog(LIMITS)
        self.virtual_s, self.softirqs, self.cpu_s = virtual_s, softirqs, cpu_s
        self.printed, self.stopped, self.readable = printed, stopped, readable

    def ended(self) -> tuple[int, str]:
        """At which look it is ended, and why; never in 2,000: 0 and nothing."""
        for look in range(1, LOOKS):
            reading = Reading(round(1e9 * self.virtual_s * look), self.softirqs * look % 2**32)
            why = self.watchdog.look(
                reading if self.readable else None,
                self.printed,
                partial(float, self.cpu_s * look),
                lambda: self.stopped,
            )
            if why:
                return look, why
        return 0, ""


# Measured on 6.1.192 by second of CPU time: virtual seconds and network softirqs.
GOES_ON = {
    "a sender at 40 Gbit/s, writes of 2 KB": Guest(0.005, 200, 1.0),
    "the same without a symbol, with lines": Guest(0.005, 200, 1.0, printed=True, readable=False),
    "a count that wraps": Guest(0.005, 2**31 + 200, 1.0),
    "sleeps of 50 us": Guest(1.7, 0, 0.34),
    "a spin that gets no processor": Guest(0.0, 0, 0.0149),
    "stopped": Guest(stopped=True),
}


@pytest.mark.parametrize("case", GOES_ON)
def test_watchdog_leaves_a_guest_that_makes_progress(case: str) -> None:
    assert GOES_ON[case].ended() == (0, "")


# The first look is progress and the second the first to know the CPU time.
ENDED = {
    "a spin": (Guest(0.0, 0, 1.0), SPINNING + 3, "spins: in 30 s of CPU time the virtual clock "),
    "a spin on half a processor": (Guest(0.0, 0, 0.5), 2 * SPINNING + 3, "spins"),
    "a spin that prints": (Guest(0.0, 0, 1.0, printed=True), SPINNING + 3, "spins"),
    "a poll of a file": (Guest(0.067, 0, 1.0), SPINNING + 3, "polls: in 30 s of CPU time the "),
    "a poll beside retransmissions": (Guest(0.067, 1, 1.0), SPINNING + 3, "polls"),
    "a clock that jumps after a pause": (Guest(0.0, 0, 1000.0), SPINNING + 3, "spins"),
    "a sleep": (Guest(10.0, 0, 0.1), SILENT // 10 + 2, "3600 s of virtual time"),
    "a kernel that stands still": (Guest(), STILL + 2, "used no CPU time for 600 s"),
    "a spin without symbols": (Guest(0.0, 0, 1.0, readable=False), SPINNING + 2, "no symbols"),
}


@pytest.mark.parametrize("case", ENDED)
def test_watchdog_ends_a_guest_without_progress(case: str) -> None:
    guest, look, why = ENDED[case]
    ended, said = guest.ended()
    assert ended == look
    assert why in said and "\n" not in said


def test_gauges_of_a_program_without_symbols_read_nothing() -> None:
    assert Gauges(b"#!/bin/sh\n").read(os.getpid()) is None


@pytest.mark.parametrize("bytes_left", [NETWORK_SOFTIRQS.size, 8, 0])
def test_gauges_of_a_kernel_whose_memory_ends_read_nothing(
    bytes_left: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel that ends between the two reads: the second gets fewer bytes, or none."""
    file = tmp_path / "memory"
    file.write_bytes(bytes(2 * mmap.PAGESIZE))
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), 0) as memory:
        opened.truncate(mmap.PAGESIZE)  # from here on, the second page cannot be read
        first = ctypes.c_char.from_buffer(memory)
        start = ctypes.addressof(first)
        at = {CLOCK: start, COUNTS: start + mmap.PAGESIZE - bytes_left}
        monkeypatch.setattr(watchdog, "addresses", lambda *_: at)
        reading = Gauges(b"").read(os.getpid())
        del first  # or the memory cannot be closed
    assert reading == (Reading(0, 0) if bytes_left == NETWORK_SOFTIRQS.size else None)


def test_addresses_are_empty_for_what_has_no_symbols() -> None:
    assert addresses(b"#!/bin/sh\n", ("jiffies",)) == {}
    program = Path("/bin/sh").read_bytes()
    for length in (5, 0x28, 0x3F, 1000, len(program) - 64, len(program)):
        assert addresses(program[:length], ("time_travel_time",)) == {}
