"""Tell a guest that is slow or paused from one that never ends, by what it does and not by time.

A second of virtual time may take minutes here: at 40 Gbit/s, on a busy machine, in a container
that is paused. So progress is read from the guest's own clock and its network, and what a guest
may use without progress is CPU time, which one that is starved or stopped does not use.

The clock alone does not tell. In process context each reading of it costs 256 ns of virtual time
(arch/um/kernel/time.c: timer_read), so a program that polls advances it too: by 0.01 to 0.07 s
per second of CPU time, as much as a sender at 40 Gbit/s with writes of 2 KB (0.005 to 0.05 s).
But that sender brings 200 to 1,500 network softirqs per second of CPU time, and a program that
polls none; one that sleeps 50 us at a time advances the clock by 5 s.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from labs.drive.kernel.elf import addresses

LOOK_S = 1.0
# Progress is one of these; both limits lie between the figures above, for 30 s of CPU time.
PROGRESS_NS = 10_000_000_000
PROGRESS_SOFTIRQS = 1_000

# Nanoseconds since the boot (arch/um/kernel/time.c).
CLOCK = "time_travel_time"
# struct kernel_stat (include/linux/kernel_stat.h): a long, then a count per softirq, of which
# NET_TX and NET_RX are the third and fourth (include/linux/interrupt.h). A kernel for one
# processor has one such struct, under this name.
COUNTS = "kstat"
NETWORK_SOFTIRQS = struct.Struct("<16x2I")
CLOCK_NS = struct.Struct("<Q")


@dataclass(frozen=True)
class Limits:
    """What a guest may use before it is ended."""

    spin_cpu_s: float = 30.0  # CPU time without progress
    silent_virtual_s: float = 4 * 3600.0  # virtual time without a line on the console
    still_s: float = 600.0  # time without CPU time, unless it is stopped


@dataclass(frozen=True)
class Reading:
    """A guest's clock and how many network softirqs it has run, modulo 2**32."""

    clock_ns: int
    softirqs: int


class Gauges:
    """Reads a kernel that runs from outside: nothing inside is asked, so nothing can change."""

    def __init__(self, program: Path) -> None:
        try:
            self._at = addresses(program.read_bytes(), (CLOCK, COUNTS))
        except OSError:
            self._at = {}

    def read(self, pid: int) -> Reading | None:
        """None if the program has no symbols, or the process has not started the kernel yet."""
        if len(self._at) < 2:
            return None
        try:
            with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
                fd = memory.fileno()
                (clock_ns,) = CLOCK_NS.unpack(os.pread(fd, CLOCK_NS.size, self._at[CLOCK]))
                counts = os.pread(fd, NETWORK_SOFTIRQS.size, self._at[COUNTS])
        except (OSError, struct.error):
            return None
        return Reading(clock_ns, sum(NETWORK_SOFTIRQS.unpack(counts)))


class Watchdog:
    """Judges a guest by one look per second.

    Looks are counted, not timed, and a look adds at most its own second of CPU time: when this
    process or the whole machine was paused meanwhile, nothing adds up.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._progress: Reading | None = None
        self._last: Reading | None = None
        self._printed_ns = 0
        self._cpu_s: float | None = None
        self._used_s = 0.0
        self._still_s = 0.0

    def look(
        self,
        reading: Reading | None,
        printed: bool,
        cpu_s: Callable[[], float],
        stopped: Callable[[], bool],
    ) -> str | None:
        """Why the guest is to be ended, or None.

        `printed`: the console has grown since the last look. `cpu_s` gives the CPU time of the
        guest's processes, and `stopped` whether its kernel is stopped; they are asked only
        if there is no progress, since that takes a walk through all processes.
        """
        last, self._last = self._last, reading
        if reading and (printed or not last):
            self._printed_ns = reading.clock_ns
        if reading and reading.clock_ns - self._printed_ns > self._limits.silent_virtual_s * 1e9:
            return (
                "everything inside waits: nothing was printed for "
                f"{self._limits.silent_virtual_s:g} s of virtual time. Give every wait inside "
                "a timeout"
            )
        if self._has_progress(reading, printed):
            self._progress, self._cpu_s, self._used_s, self._still_s = reading, None, 0.0, 0.0
            return None
        return self._without_progress(reading, last, cpu_s(), stopped)

    def _has_progress(self, reading: Reading | None, printed: bool) -> bool:
        """Lines count only where nothing else can be read: who polls may print them for ever."""
        if reading is None:
            return printed
        if self._progress is None:
            return True
        softirqs = (reading.softirqs - self._progress.softirqs) % 2**32
        return (
            reading.clock_ns - self._progress.clock_ns >= PROGRESS_NS
            or softirqs >= PROGRESS_SOFTIRQS
        )

    def _without_progress(
        self,
        reading: Reading | None,
        last: Reading | None,
        cpu_s: float,
        stopped: Callable[[], bool],
    ) -> str | None:
        used_s = 0.0 if self._cpu_s is None else cpu_s - self._cpu_s
        self._cpu_s = cpu_s
        if used_s > 0 or stopped():
            self._still_s = 0.0
        else:
            self._still_s += LOOK_S
        self._used_s += min(max(used_s, 0.0), LOOK_S)
        if self._still_s > self._limits.still_s:
            return (
                f"it stands still: it used no CPU time for {self._limits.still_s:g} s. Check "
                "that the file systems of this machine answer"
            )
        if self._used_s <= self._limits.spin_cpu_s:
            return None
        limit = f"{self._limits.spin_cpu_s:g} s of CPU time"
        if reading is None or self._progress is None:
            return (
                f"it printed nothing for {limit}, and its clock cannot be read because the "
                "kernel has no symbols. A program inside may spin"
            )
        if last and last.clock_ns == reading.clock_ns:
            return (
                f"a program inside spins: in {limit} the virtual clock stood still. Only a "
                "sleep advances it: wait with sleep() or with the timeout of poll()"
            )
        moved_s = (reading.clock_ns - self._progress.clock_ns) / 1e9
        return (
            f"a program inside polls: in {limit} the virtual clock advanced by {moved_s:.2g} s "
            "and the network was all but idle. Wait with sleep() or with the timeout of "
            "poll()"
        )
