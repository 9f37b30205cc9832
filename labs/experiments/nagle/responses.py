"""A single response: its goodput; how long its second part is held back, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from labs.experiments.nagle.prediction import settings_of
from labs.read.flows.connection_state import connection_state
from labs.read.readings.latency import latency
from labs.read.runs.run import Run

if TYPE_CHECKING:
    from pandas import DataFrame


def goodput_mbit(run: Run) -> float:
    """The goodput of the body of a run with one request, from the request to the last byte."""
    return 8e-3 * settings_of(run).page_bytes / latency(run).mean_ms


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
