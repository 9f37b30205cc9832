"""What the programs of the labs, iperf3 and `tc -j` report in JSON.

Every function raises Damaged for what its program cannot have written. Sources:
`labs/guest/flows.py`, which describes the files of a run with several flows;
`labs/guest/programs/fetch.py`, `ask.py` and `epoll_server/epoll_server.c`; iperf 3.12,
src/iperf_api.c iperf_json_start(), iperf_json_finish(); iproute2, tc/q_codel.c, q_fq_codel.c,
q_red.c, q_pie.c, q_fq_pie.c, q_cake.c (names of the counters of marked packets).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from itertools import pairwise
from typing import Any, TypeVar

from labs.errors import Damaged

T = TypeVar("T")
MARKED = ("ecn_mark", "marked")
"""The counters of marked packets; cake has one per tin."""
NOT_SUPPORTED = -1
"""What epoll_server reports for a setting that the kernel lacks."""
FETCH_TIMES = ("connect_ns", "first_byte_ns", "end_ns")
# What earlier versions of the client did not write.
FETCH_LATER = ("before_ns", "request_ns", "length", "status", "rcvbuf_bytes", "reads")
LONGEST_MS = 1e12


def _is_whole(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


FITS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "int": (_is_whole, "a whole number from 0 to 2^63 - 1"),
    "int | None": (lambda value: value is None or _is_whole(value), "a whole number, or null"),
    "bool": (lambda value: type(value) is bool, "true or false"),
    "str": (lambda value: type(value) is str, "a text"),
}
"""What a field of each type admits, and how that is said."""


def filled(kind: type[T], entry: object, **given: Any) -> T:
    """A dataclass from the entries of a JSON object with the names of its fields; `given` are
    fields that were already read."""
    if not isinstance(entry, Mapping):
        raise Damaged(f"not a JSON object: {str(entry)[:40]!r}")
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name in given:
            continue
        value = entry.get(field.name, None if field.default is MISSING else field.default)
        fits, allowed = FITS[str(field.type)]
        if not fits(value):
            raise Damaged(f"{field.name} is {str(value)[:40]!r}. Allowed: {allowed}")
        given[field.name] = value
    return kind(**given)


def _listed(data: Any, name: str) -> list[Mapping[str, Any]]:
    entries = data.get(name) if isinstance(data, Mapping) else None
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise Damaged(f"it has no list of {name}")
    return entries


def _points(entry: Mapping[str, Any]) -> tuple[tuple[int, int], ...]:
    """The timeline of a transfer: moments, and the bytes by then."""
    points = entry.get("timeline")
    if not isinstance(points, list) or not all(
        isinstance(point, list) and len(point) == 2 and all(map(_is_whole, point))
        for point in points
    ):
        raise Damaged("timeline is not a list of moments and bytes")
    return tuple((at_ns, count) for at_ns, count in points)


@dataclass(frozen=True)
class StreamReport:
    """One end of a flow, as its program reports it. Times are ns of CLOCK_REALTIME; `timeline` are
    moments and the bytes read or written by then, in ascending order; `kernel_bytes` what the
    kernel counted as received or acknowledged at the end."""

    flow: int
    role: str
    begin_ns: int
    end_ns: int
    bytes: int
    timeline: tuple[tuple[int, int], ...]
    ended: str = ""
    control: str = ""
    kernel_bytes: int | None = None


def streams(data: Any) -> tuple[StreamReport, ...]:
    """The flows of a `stream.json`."""
    flows = _listed(data, "flows")
    for flow in flows:
        if flow.get("role") not in ("send", "receive"):
            raise Damaged(
                f"the role of a flow is {str(flow.get('role'))[:20]!r}. Allowed: send, receive"
            )
    return tuple(filled(StreamReport, flow, timeline=_points(flow)) for flow in flows)


@dataclass(frozen=True)
class RequestReport:
    """One request: when it was due, sent and answered, in ns; None for what did not happen."""

    due_ns: int
    sent_ns: int | None
    done_ns: int | None
    bytes: int | None

    @property
    def latency_ms(self) -> float | None:
        """From the moment at which it was due, as a user feels it, also if it was sent late."""
        return None if self.done_ns is None else (self.done_ns - self.due_ns) / 1e6


def requests(data: Any) -> tuple[RequestReport, ...]:
    """The requests of a `requests.json`, in order."""
    return tuple(filled(RequestReport, request) for request in _listed(data, "requests"))


def marked_packets(data: Any) -> int:
    """The packets that the qdiscs of a `tc -s -j qdisc show` marked."""
    if isinstance(data, Mapping):
        return sum(marked_packets(qdiscs) for qdiscs in data.values())
    if not isinstance(data, list):
        raise Damaged("the output of tc is not a list of qdiscs")
    return sum(sum(_marks(qdisc)) for qdisc in data)


def _marks(qdisc: Any) -> Iterator[int]:
    if isinstance(qdisc, Mapping):
        yield from (qdisc[name] for name in MARKED if isinstance(qdisc.get(name), int))
        tins = qdisc.get("tins")
        for tin in tins if isinstance(tins, list) else ():
            yield from _marks(tin)


def as_is(data: Any) -> Mapping[str, Any]:
    """A JSON object without a closer look."""
    if not isinstance(data, Mapping):
        raise Damaged("not a JSON object")
    return data


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
    """The report of epoll_server."""
    threads = []
    for thread in _listed(report, "threads"):
        without = [name for name, value in thread.items() if value == NOT_SUPPORTED]
        threads.append(filled(ServerThread, thread, **dict.fromkeys(without, NOT_SUPPORTED)))
    if not threads:
        raise Damaged("the report of the server has no threads")
    return filled(ServerReport, report, threads=tuple(threads))


@dataclass(frozen=True)
class Setting:
    """A setting: requested, as read back, and whether it has an effect on this machine."""

    factor: str
    requested: str
    found: str
    effective: bool
    because: str


def settings(entries: object) -> tuple[Setting, ...]:
    """The settings that a run read back."""
    if not isinstance(entries, list):
        raise Damaged("the settings are not a list")
    return tuple(filled(Setting, entry) for entry in entries)


def iperf3_error(report: object) -> str | None:
    """The error with which iperf3 ended; None for a report without one. Its figures are not read:
    those of a transfer come from a capture and from the sockets."""
    if not isinstance(report, dict) or not isinstance(report.get("start"), dict):
        raise Damaged("not a report of iperf3: not a JSON object with start")
    message = report.get("error")
    if message is not None and (not isinstance(message, str) or not message):
        raise Damaged("error is not a text")
    return message


def fetch(report: object) -> dict[str, Any]:
    """What the labs' client wrote. Times are in order, and the timeline rises in time and in bytes,
    up to the body's."""
    if not isinstance(report, dict):
        raise Damaged("not the output of the labs' client: not a JSON object")
    for name in (*FETCH_TIMES, "bytes", *(name for name in FETCH_LATER if name in report)):
        if not _is_whole(report.get(name)):
            raise Damaged(f"{name} is not a whole number from 0 to 2^63 - 1")
    moments = [report[name] for name in FETCH_TIMES]
    if moments != sorted(moments) or report.get("before_ns", 0) > report["connect_ns"]:
        raise Damaged("its times are not in order")
    steps = pairwise([*_points(report), (report["end_ns"], report["bytes"])])
    if any(at > later or had > more for (at, had), (later, more) in steps):
        raise Damaged("timeline does not increase to end_ns and bytes")
    return report


def ask(report: object) -> tuple[float, ...]:
    """The times of requests, in ms."""
    times = report.get("times_ms") if isinstance(report, dict) else None
    if not isinstance(times, list) or not times or not all(map(_is_time, times)):
        raise Damaged("times_ms is not a list of times in ms")
    return tuple(map(float, times))


def _is_time(value: object) -> bool:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < LONGEST_MS
    )
