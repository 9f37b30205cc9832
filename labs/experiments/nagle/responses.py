"""A single response: its goodput and headers; how long its second part is held back, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from labs.drive.testbed.link import FRAME_BYTES, MSS_BYTES
from labs.experiments.nagle.prediction import settings_of
from labs.experiments.nagle.requests import answered
from labs.read.flows.connection_state import connection_state
from labs.read.readings.latency import latency
from labs.read.runs.run import Run

if TYPE_CHECKING:
    from pandas import DataFrame

HEADERS_BYTES = FRAME_BYTES - MSS_BYTES
"""Ethernet, IPv4 and TCP with timestamps."""


@dataclass(frozen=True)
class Transfer:
    """The goodput of the body, from the request to its last byte; the server's segments; and the
    share of their bytes that is payload."""

    goodput_mbit: float
    segments: float
    payload_pct: float


def transfer(run: Run) -> Transfer:
    """The figures of a run with one request."""
    settings, segments = settings_of(run), answered(run).segments
    payload = sum(settings.written_bytes)
    return Transfer(
        goodput_mbit=8e-3 * settings.page_bytes / latency(run).mean_ms,
        segments=segments,
        payload_pct=100 * payload / (payload + segments * HEADERS_BYTES),
    )


@dataclass(frozen=True)
class HeldSegment:
    """A segment that Nagle's algorithm held back: the time from the part before it until it was
    sent, whether an ACK of that part had arrived, and how often that part was retransmitted."""

    held_ms: float
    acknowledged: bool
    retransmissions: int


def held_segment(segments: DataFrame) -> HeldSegment | None:
    """The second part of the first response in a capture of the server; None if none was sent."""
    known = connection_state(segments)
    data = [at for at in known.carrying.tolist() if known.direction[at] == 1]
    # Those of the same response acknowledge the same request.
    same = (known.connection, known.ack)
    data = [at for at in data if all(values[at] == values[data[0]] for values in same)]
    second = next((at for at in data if known.begin[at] >= known.end[data[0]]), None)
    if second is None:
        return None
    first = data[0]
    return HeldSegment(
        held_ms=float(known.time_ns[second] - known.time_ns[first]) / 1e6,
        acknowledged=bool(known.acked[1][second] >= known.end[first]),
        retransmissions=sum(first < at < second for at in data),
    )
