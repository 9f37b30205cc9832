"""Parsers of what the programs of a run with several flows write, and of `tc -s -j qdisc show`.

Source: `labs/drive/flows.py`, which describes the files; iproute2, tc/q_codel.c, q_fq_codel.c,
q_red.c, q_pie.c, q_fq_pie.c, q_cake.c (names of the counters of marked packets).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from labs.errors import Damaged

MARKED = ("ecn_mark", "marked")
"""The counters of marked packets; cake has one per tin."""


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
    ended: str
    control: str
    timeline: tuple[tuple[int, int], ...]
    kernel_bytes: int | None = None


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


def streams(data: Any) -> tuple[StreamReport, ...]:
    """The flows of a `stream.json`; Damaged for anything else."""
    return tuple(_stream(flow) for flow in _listed(data, "flows"))


def requests(data: Any) -> tuple[RequestReport, ...]:
    """The requests of a `requests.json`, in order; Damaged for anything else."""
    return tuple(
        RequestReport(
            due_ns=_whole(request, "due_ns"),
            sent_ns=_whole_or_none(request, "sent_ns"),
            done_ns=_whole_or_none(request, "done_ns"),
            bytes=_whole_or_none(request, "bytes"),
        )
        for request in _listed(data, "requests")
    )


def marked_packets(data: Any) -> int:
    """The packets that the qdiscs of a `tc -s -j qdisc show` marked; Damaged for anything else."""
    if isinstance(data, Mapping):
        return sum(marked_packets(qdiscs) for qdiscs in data.values())
    if not isinstance(data, list):
        raise Damaged("the output of tc is not a list of qdiscs")
    return sum(sum(_marks(qdisc)) for qdisc in data)


def as_is(data: Any) -> Mapping[str, Any]:
    """A JSON object without a closer look; Damaged for anything else."""
    if not isinstance(data, Mapping):
        raise Damaged("not a JSON object")
    return data


def _marks(qdisc: Any) -> Iterator[int]:
    if isinstance(qdisc, Mapping):
        for name, value in qdisc.items():
            if name in MARKED and isinstance(value, int):
                yield value
            elif name == "tins" and isinstance(value, list):
                for tin in value:
                    yield from _marks(tin)


def _stream(flow: Mapping[str, Any]) -> StreamReport:
    timeline = flow.get("timeline")
    if not isinstance(timeline, list) or not all(
        isinstance(point, list) and len(point) == 2 and all(isinstance(each, int) for each in point)
        for point in timeline
    ):
        raise Damaged("the timeline of a flow is not a list of moments and bytes")
    role = flow.get("role")
    if role not in ("send", "receive"):
        raise Damaged(f"the role of a flow is {str(role)[:20]!r}. Allowed: send, receive")
    return StreamReport(
        flow=_whole(flow, "flow"),
        role=role,
        begin_ns=_whole(flow, "begin_ns"),
        end_ns=_whole(flow, "end_ns"),
        bytes=_whole(flow, "bytes"),
        ended=str(flow.get("ended", "")),
        control=str(flow.get("control", "")),
        timeline=tuple((point[0], point[1]) for point in timeline),
        kernel_bytes=_whole_or_none(flow, "kernel_bytes"),
    )


def _listed(data: Any, name: str) -> list[Mapping[str, Any]]:
    entries = data.get(name) if isinstance(data, Mapping) else None
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise Damaged(f"it has no list of {name}")
    return entries


def _whole(entry: Mapping[str, Any], name: str) -> int:
    value = entry.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Damaged(f"{name} is {str(value)[:20]!r}. Allowed: a whole number, 0 or more")
    return value


def _whole_or_none(entry: Mapping[str, Any], name: str) -> int | None:
    return None if entry.get(name) is None else _whole(entry, name)
