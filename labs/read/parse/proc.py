"""What a Linux kernel counts: `nstat`, CPU times, load, ticks; and the driver of a device.

Source of nstat's format: iproute2, misc/nstat.c dump_kern_db(); the names are those of
/proc/net/snmp, netstat and snmp6, such as IpInReceives, TcpRetransSegs, TcpExtTCPMemoryPressures.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from labs.errors import Damaged

HZ = (100, 250, 300, 1000)
"""What a kernel can be configured to (kernel/Kconfig.hz); Alpha's 1024 is left out."""
# How far a count of ticks may be from it: a count is off by one, and clocks drift.
HZ_TOLERANCE = 0.1
IDLE, IOWAIT, STEAL = 3, 4, 7
TIMES = 8
_COUNTER = re.compile(r"([A-Za-z]\w*)\s+(-?\d{1,20})(?:\s+\S+)?\s*", re.ASCII)
SHORT = {
    "tcp-segmentation-offload": "tso",
    "generic-segmentation-offload": "gso",
    "generic-receive-offload": "gro",
}


@dataclass(frozen=True)
class CpuTimes:
    """The time of a CPU in ticks of USER_HZ: all of it, and of that idle and stolen.

    Source: fs/proc/stat.c show_stat(); guest time stands in user time already.
    """

    total: int
    idle: int
    stolen: int

    def since(self, before: CpuTimes) -> CpuTimes:
        return CpuTimes(
            self.total - before.total, self.idle - before.idle, self.stolen - before.stolen
        )

    @property
    def busy_pct(self) -> float | None:
        """The share that was worked in; None if no time has passed."""
        worked = self.total - self.idle - self.stolen
        return 100 * worked / self.total if self.total > 0 else None

    @property
    def stolen_pct(self) -> float | None:
        """The share that the machine below gave to others; None if no time has passed."""
        return 100 * self.stolen / self.total if self.total > 0 else None


def cpu_times(stat: str) -> dict[str, CpuTimes]:
    """The CPUs of /proc/stat by name, `cpu` for all together."""
    found = {}
    for line in stat.splitlines():
        name, *words = line.split()
        if name.startswith("cpu") and len(words) >= TIMES:
            times = [int(word) for word in words[:TIMES]]
            found[name] = CpuTimes(sum(times), times[IDLE] + times[IOWAIT], times[STEAL])
    return found


def load(loadavg: str) -> float:
    """The load of the last minute, from /proc/loadavg."""
    return float(loadavg.split()[0])


def hz(before: str, after: str) -> int | None:
    """The kernel's HZ, from ticks counted between two looks at /proc/timer_list; None if unclear.

    Source: kernel/time/timer_list.c timer_list_show_tickdevices_header(), print_tickdevice().
    """
    (now_0, ticks_0), (now_1, ticks_1) = _ticks(before), _ticks(after)
    if None in (now_0, ticks_0, now_1, ticks_1) or now_1 == now_0:
        return None
    counted = 1e9 * (ticks_1 - ticks_0) / (now_1 - now_0)  # type: ignore[operator]
    near = min(HZ, key=lambda known: abs(counted / known - 1))
    return near if abs(counted / near - 1) <= HZ_TOLERANCE else None


def _ticks(timer_list: str) -> tuple[int | None, int | None]:
    now_ns = ticks = None
    for line in timer_list.splitlines():
        words = line.split()
        if line.startswith("now at "):
            now_ns = int(words[2])
        elif line.startswith("jiffies: "):
            ticks = int(words[1])
    return now_ns, ticks


def driver(printed: str) -> str | None:
    """The driver's name in `ethtool -i`."""
    return next(
        (line.split()[1] for line in printed.splitlines() if line.startswith("driver: ")), None
    )


def offloads(printed: str) -> dict[str, bool]:
    """Whether tso, gso and gro are on, from `ethtool -k`."""
    rows = (line.split(":") for line in printed.splitlines() if ":" in line)
    return {
        SHORT[name]: state.split()[0] == "on"
        for name, state in rows
        if name in SHORT and state.split()
    }


def counters(text: str) -> dict[str, int]:
    """Every counter by its name, in nstat's order.

    Raises Damaged for a line that is neither a comment (`#kernel`) nor a name and a number.
    """
    found: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _COUNTER.fullmatch(line)
        if match is None:
            raise Damaged(f"nstat, line {number}: a name and a number expected: {line[:60]!r}")
        found[match[1]] = int(match[2])
    return found


def changes(before: str, after: str) -> dict[str, int]:
    """What each counter of `after` gained since `before`; one that is new there counts from 0."""
    start = counters(before)
    return {name: value - start.get(name, 0) for name, value in counters(after).items()}
