"""Distinguish a guest that is slow or paused from one that never ends, by progress, not real time.

A second of virtual time may take minutes of real time: at 40 Gbit/s, on a busy machine, or in a
paused container. Progress is therefore read from the guest's own clock and network counters. The
limit without progress is an amount of CPU time, because a starved or stopped guest uses none.

The clock alone is not enough. In process context each reading of it costs 256 ns of virtual time
(arch/um/kernel/time.c: timer_read), so a program that polls advances it too: by 0.01 to 0.07 s
per second of CPU time, as much as a sender at 40 Gbit/s with writes of 2 KB (0.005 to 0.05 s).
But that sender causes 200 to 1,500 network softirqs per second of CPU time, and a program that
polls causes none. A program that sleeps for 50 us at a time advances the clock by 5 s.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

LOOK_S = 1.0
# Either of these counts as progress. Over 30 s of CPU time, both lie between the figures above.
PROGRESS_NS = 10_000_000_000
PROGRESS_SOFTIRQS = 1_000

# Nanoseconds since boot (arch/um/kernel/time.c).
CLOCK = "time_travel_time"
# struct kernel_stat (include/linux/kernel_stat.h): a long, then a counter per softirq, of which
# NET_TX and NET_RX are the third and fourth (include/linux/interrupt.h). A uniprocessor kernel
# has a single such struct, with this name.
COUNTS = "kstat"
NETWORK_SOFTIRQS = struct.Struct("<16x2I")
CLOCK_NS = struct.Struct("<Q")
MAGIC_64_LITTLE_ENDIAN = b"\x7fELF\x02\x01"
# Elf64_Shdr and Elf64_Sym of elf.h.
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
SHT_SYMTAB = 2


@dataclass(frozen=True)
class Limits:
    """The limits at which a guest is ended."""

    spin_cpu_s: float = 30.0  # CPU time without progress
    silent_virtual_s: float = 4 * 3600.0  # virtual time without a line on the console
    still_s: float = 600.0  # real time without use of CPU time, unless the guest is stopped


@dataclass(frozen=True)
class Reading:
    """A guest's clock, and the number of network softirqs it has run, modulo 2**32."""

    clock_ns: int
    softirqs: int


class Gauges:
    """Reads the memory of a running kernel from outside, so that nothing inside is affected."""

    def __init__(self, program: bytes) -> None:
        self._at = addresses(program, (CLOCK, COUNTS))

    def read(self, pid: int) -> Reading | None:
        """None if the program has no symbols, or the process runs no kernel (not yet, or ended)."""
        if len(self._at) < 2:
            return None
        try:
            with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
                fd = memory.fileno()
                (clock_ns,) = CLOCK_NS.unpack(os.pread(fd, CLOCK_NS.size, self._at[CLOCK]))
                counts = os.pread(fd, NETWORK_SOFTIRQS.size, self._at[COUNTS])
                return Reading(clock_ns, sum(NETWORK_SOFTIRQS.unpack(counts)))
        except (OSError, struct.error):  # the memory of a process that ends reads as nothing
            return None


class Watchdog:
    """Checks a guest once per second.

    Checks are counted, not timed, and each adds at most one second of CPU time, so a pause of this
    process or of the whole machine does not count against the guest.
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
        """Why the guest must be ended; None if it may continue.

        `printed` says whether the console has grown since the last check. `cpu_s` returns the CPU
        time of the guest's processes, and `stopped` whether its kernel is stopped. Both are called
        only if there is no progress, because they read the state of every process.
        """
        last, self._last = self._last, reading
        if reading and (printed or not last):
            self._printed_ns = reading.clock_ns
        if reading and reading.clock_ns - self._printed_ns > self._limits.silent_virtual_s * 1e9:
            return (
                "all programs inside are waiting: nothing was printed for "
                f"{self._limits.silent_virtual_s:g} s of virtual time. Give every wait inside "
                "a timeout"
            )
        if self._has_progress(reading, printed):
            self._progress, self._cpu_s, self._used_s, self._still_s = reading, None, 0.0, 0.0
            return None
        return self._without_progress(reading, last, cpu_s(), stopped)

    def _has_progress(self, reading: Reading | None, printed: bool) -> bool:
        """Output counts only if nothing else can be read, because a polling program may print."""
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
                f"it hung: it used no CPU time for {self._limits.still_s:g} s. Check "
                "that the file systems of this machine respond"
            )
        if self._used_s <= self._limits.spin_cpu_s:
            return None
        limit = f"{self._limits.spin_cpu_s:g} s of CPU time"
        if reading is None or self._progress is None:
            return (
                f"it printed nothing for {limit}, and its clock cannot be read because the "
                "kernel has no symbols. A program inside may be in an endless loop"
            )
        if last and last.clock_ns == reading.clock_ns:
            return (
                f"a program inside spins: in {limit} the virtual clock did not advance. Only "
                "sleeping advances it: wait with sleep() or with the timeout of poll()"
            )
        moved_s = (reading.clock_ns - self._progress.clock_ns) / 1e9
        return (
            f"a program inside polls: in {limit} the virtual clock advanced by {moved_s:.2g} s "
            "and the network was almost idle. Wait with sleep() or with the timeout of "
            "poll()"
        )


def _places(text: bytes, name: bytes) -> Iterator[int]:
    """The offsets at which a table of strings has this name."""
    at = -1
    while (at := text.find(name + b"\0", at + 1)) >= 0:
        yield at


def addresses(program: bytes, names: Iterable[str]) -> dict[str, int]:
    """The addresses of those of `names` that are in the symbol table of an ELF file.

    Empty if `program` is not a 64-bit little-endian ELF file, or is stripped.
    """
    if not program.startswith(MAGIC_64_LITTLE_ENDIAN):
        return {}
    try:
        (table_at,) = struct.unpack_from("<Q", program, 0x28)
        size, count = struct.unpack_from("<HH", program, 0x3A)
        sections = [SECTION.unpack_from(program, table_at + size * i) for i in range(count)]
        for _, kind, _, _, at, length, strings, _, _, _ in sections:
            if kind == SHT_SYMTAB:
                text_at, text_length = sections[strings][4:6]
                text = program[text_at : text_at + text_length]
                # A symbol names the offset of its name, which may be the tail of a longer one.
                places = {place: name for name in names for place in _places(text, name.encode())}
                table = program[at : at + length // SYMBOL.size * SYMBOL.size]
                offsets = memoryview(table).cast("I")[:: SYMBOL.size // 4].tolist()
                return {
                    places[offset]: SYMBOL.unpack_from(table, SYMBOL.size * number)[4]
                    for number, offset in enumerate(offsets)
                    if offset in places
                }
    except (struct.error, IndexError):
        pass
    return {}
