"""What a Linux kernel counts: `nstat`, CPU times, load, ticks, interrupts, context switches; and
the driver of a device.

Source of nstat's format: iproute2, misc/nstat.c dump_kern_db(); the names are those of
/proc/net/snmp, netstat and snmp6, such as IpInReceives, TcpRetransSegs, TcpExtTCPMemoryPressures.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from labs.errors import Damaged

HZ = (100, 250, 300, 1000)
"""What a kernel can be configured to (kernel/Kconfig.hz); Alpha's 1024 is left out."""
# How far a count of ticks may be from it: a count is off by one, and clocks drift.
HZ_TOLERANCE = 0.1
IDLE, IOWAIT, STEAL = 3, 4, 7
TIMES = 8
_CPU = re.compile(r"cpu\d{0,6}(?:\s+\d{1,20}){8,20}\s*", re.ASCII)
_LOAD = re.compile(r"\d{1,9}\.\d{1,9}(?=\s)", re.ASCII)
_NOW = re.compile(r"^now at (\d{1,20})\b", re.ASCII | re.MULTILINE)
_JIFFIES = re.compile(r"^jiffies: (\d{1,20})\b", re.ASCII | re.MULTILINE)
_DRIVER = re.compile(r"^driver: (\S+)", re.ASCII | re.MULTILINE)
_COUNTER = re.compile(r"([A-Za-z]\w*)\s+(-?\d{1,20})(?:\s+\S+)?\s*", re.ASCII)
_SOFTIRQS = re.compile(r"\s*([A-Z_]{2,20}):((?:\s+\d{1,20})+)\s*", re.ASCII)
_INTERRUPT = re.compile(r"\s*([A-Za-z0-9_]{1,20}):((?:\s+\d{1,20})+)(?:\s.*)?", re.ASCII)
_SWITCHES = re.compile(r"^(ctxt|intr) (\d{1,20})\b", re.ASCII | re.MULTILINE)
SHORT = {
    "tcp-segmentation-offload": "tso",
    "generic-segmentation-offload": "gso",
    "generic-receive-offload": "gro",
}


@dataclass(frozen=True)
class CpuTimes:
    """The time of a CPU in ticks of USER_HZ: all of it, and of that idle and stolen.

    Source: fs/proc/stat.c show_stat(); user time already includes guest time.
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
        """The busy share; None if no time has passed."""
        worked = self.total - self.idle - self.stolen
        return 100 * worked / self.total if self.total > 0 else None

    @property
    def stolen_pct(self) -> float | None:
        """The share that the host gave to other guests (steal time); None if no time has passed."""
        return 100 * self.stolen / self.total if self.total > 0 else None


def cpu_times(stat: str) -> dict[str, CpuTimes]:
    """The CPUs of /proc/stat by name, `cpu` for all together; Damaged without that."""
    cpus = {}
    for line in filter(_CPU.fullmatch, stat.splitlines()):
        name, *words = line.split()
        times = [int(word) for word in words[:TIMES]]
        cpus[name] = CpuTimes(sum(times), times[IDLE] + times[IOWAIT], times[STEAL])
    if "cpu" not in cpus:
        raise Damaged("/proc/stat has no line 'cpu' with its times")
    return cpus


def load(loadavg: str) -> float:
    """The load of the last minute, from /proc/loadavg; Damaged for other text."""
    match = _LOAD.match(loadavg)
    if match is None:
        raise Damaged(f"/proc/loadavg does not begin with a load: {loadavg[:40]!r}")
    return float(match[0])


def hz(before: str, after: str) -> int | None:
    """The kernel's HZ, from ticks counted between two looks at /proc/timer_list; None if unclear.

    Source: kernel/time/timer_list.c timer_list_show_tickdevices_header(), print_tickdevice().
    """
    (now_0, ticks_0), (now_1, ticks_1) = _ticks(before), _ticks(after)
    if None in (now_0, ticks_0, now_1, ticks_1) or now_1 == now_0:
        return None
    counted = 1e9 * (ticks_1 - ticks_0) / (now_1 - now_0)  # type: ignore[operator]
    near = min(HZ, key=lambda usual_hz: abs(counted / usual_hz - 1))
    return near if abs(counted / near - 1) <= HZ_TOLERANCE else None


def _ticks(timer_list: str) -> tuple[int | None, int | None]:
    now_ns, ticks = _NOW.search(timer_list), _JIFFIES.search(timer_list)
    return now_ns and int(now_ns[1]), ticks and int(ticks[1])


def driver(printed: str) -> str | None:
    """The driver's name in `ethtool -i`."""
    match = _DRIVER.search(printed)
    return match[1] if match else None


def offloads(printed: str) -> dict[str, bool]:
    """Whether tso, gso and gro are on, from `ethtool -k`."""
    rows = (line.partition(":") for line in printed.splitlines())
    return {
        SHORT[name]: state.split()[0] == "on"
        for name, _, state in rows
        if name in SHORT and state.split()
    }


def machines(states: object) -> dict[str, dict[str, Any]]:
    """Return what labs/guest/host_load.py wrote, once it has that shape; else raise Damaged."""
    if not isinstance(states, dict):
        raise Damaged("not an object with an entry per machine")
    for name, about in states.items():
        if not isinstance(about, dict) or not {"before", "after"} <= about.keys():
            raise Damaged(f"{name} has no state before and after")
        for moment in (about["before"], about["after"]):
            if not isinstance(moment, dict):
                raise Damaged(f"{name} has no state before and after")
            for path, reader in AT_A_MOMENT.items():
                if path in moment:
                    reader(_as_text(name, moment[path]))
        for entry, value in about.items():
            if entry not in ("before", "after"):
                _as_text(name, value)
    return states


def _as_text(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    raise Damaged(f"{name} has an entry that is not a string")


@dataclass(frozen=True)
class Sampling:
    """How a sampler worked: the number of its samples, and their mean period."""

    samples: int
    mean_period_ms: float


def sampling(report: object) -> Sampling:
    """Read what the sampler reports about itself at its end; Damaged for another shape."""
    match report:
        case {"samples": int(samples), "mean_period_ms": int() | float() as period_ms}:
            return Sampling(samples, float(period_ms))
    raise Damaged("not a sampler's report: it lacks samples or mean_period_ms")


def counters(text: str) -> dict[str, int]:
    """Every counter by its name, in nstat's order.

    Raises Damaged for a line that is neither a comment (`#kernel`) nor a name and a number.
    """
    counts: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _COUNTER.fullmatch(line)
        if match is None:
            raise Damaged(f"nstat, line {number}: a name and a number expected: {line[:60]!r}")
        counts[match[1]] = int(match[2])
    return counts


def changes(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """What each counter of `after` gained since `before`; one that is new there counts from 0."""
    return {name: value - before.get(name, 0) for name, value in after.items()}


def softirqs(text: str) -> dict[str, int]:
    """/proc/softirqs by kind, all CPUs together; Damaged if there are none."""
    return _sums(text, _SOFTIRQS)


def interrupts(text: str) -> dict[str, int]:
    """/proc/interrupts by name, all CPUs together; Damaged if there are none."""
    return _sums(text, _INTERRUPT)


def _sums(text: str, pattern: re.Pattern[str]) -> dict[str, int]:
    matches = (pattern.fullmatch(line) for line in text.splitlines()[1:])
    sums = {match[1]: sum(map(int, match[2].split())) for match in matches if match}
    if not sums:
        raise Damaged("no line has a name and numbers")
    return sums


def switches(stat: str) -> Mapping[str, int]:
    """Context switches (`ctxt`) and interrupts (`intr`) of /proc/stat since the machine booted."""
    counts = {name: int(value) for name, value in _SWITCHES.findall(stat)}
    if len(counts) != 2:
        raise Damaged("/proc/stat has no line ctxt, or no line intr")
    return counts


AT_A_MOMENT: Mapping[str, Callable[[str], object]] = {
    "/proc/stat": cpu_times,
    "/proc/loadavg": load,
    "/proc/timer_list": _ticks,
}
"""What is read of a machine before and after a run, and its parsers."""
