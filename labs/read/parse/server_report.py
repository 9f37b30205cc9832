"""The reports of a run of a server: its own, the settings read back, and the kernel's counters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from labs.errors import Damaged

_SOFTIRQS = re.compile(r"\s*([A-Z_]{2,20}):((?:\s+\d{1,20})+)\s*", re.ASCII)
_INTERRUPT = re.compile(r"\s*([A-Za-z0-9_]{1,20}):((?:\s+\d{1,20})+)(?:\s.*)?", re.ASCII)
_COUNTER = re.compile(r"^(ctxt|intr) (\d{1,20})\b", re.ASCII | re.MULTILINE)


@dataclass(frozen=True)
class ServerThread:
    """A thread: what it did, and its settings as read back."""

    cpu: int
    allowed_cpus: int
    busy_poll_us: int
    epoll_busy_poll_us: int
    napi_id: int
    requests: int
    bad: int
    waits: int
    empty_waits: int


@dataclass(frozen=True)
class ServerReport:
    """What epoll_server prints at its end; it includes the warm-up."""

    user_us: int
    system_us: int
    voluntary_switches: int
    involuntary_switches: int
    threads: tuple[ServerThread, ...]

    @property
    def requests(self) -> int:
        return sum(thread.requests for thread in self.threads)

    @property
    def serving(self) -> int:
        """The number of threads that answered a request."""
        return sum(thread.requests > 0 for thread in self.threads)

    @property
    def cpu_us(self) -> float:
        """The CPU time per request."""
        return (self.user_us + self.system_us) / max(1, self.requests)

    @property
    def polls(self) -> float:
        """The calls of epoll_wait per request."""
        return sum(thread.waits for thread in self.threads) / max(1, self.requests)


def server(report: object) -> ServerReport:
    """The report of epoll_server; Damaged for another object."""
    top = _whole(report, ("user_us", "system_us", "voluntary_switches", "involuntary_switches"))
    threads = report.get("threads") if isinstance(report, dict) else None
    if not isinstance(threads, list) or not threads:
        raise Damaged("the report of the server has no threads")
    names = tuple(ServerThread.__dataclass_fields__)
    return ServerReport(
        **top, threads=tuple(ServerThread(**_whole(thread, names)) for thread in threads)
    )


def _whole(report: object, names: tuple[str, ...]) -> dict[str, int]:
    if not isinstance(report, dict):
        raise Damaged("the report of the server is not an object")
    for name in names:
        if type(report.get(name)) is not int:
            raise Damaged(f"{name} is {str(report.get(name))[:40]!r}, not a whole number")
    return {name: report[name] for name in names}


@dataclass(frozen=True)
class Setting:
    """A setting: requested, as read back, and whether it has an effect on this machine."""

    factor: str
    requested: str
    found: str
    effective: bool
    because: str


def settings(entries: object) -> tuple[Setting, ...]:
    """The settings that a run read back; Damaged for another object."""
    if not isinstance(entries, list):
        raise Damaged("the settings are not a list")
    for entry in entries:
        texts = ("factor", "requested", "found", "because")
        if not isinstance(entry, dict) or set(entry) != {*texts, "effective"}:
            raise Damaged("a setting has other fields than factor, requested, found, effective")
        if type(entry["effective"]) is not bool or not all(
            type(entry[key]) is str for key in texts
        ):
            raise Damaged("a setting has a field of another type")
    return tuple(Setting(**entry) for entry in entries)


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
    counts = {name: int(value) for name, value in _COUNTER.findall(stat)}
    if len(counts) != 2:
        raise Damaged("/proc/stat has no line ctxt, or no line intr")
    return counts
