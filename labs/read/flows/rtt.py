"""RTTs at the place of the capture: the time to each ACK, and the distance to both ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy

from labs.read.capture.segment_table import ACK, FIN, RST, SYN
from labs.read.flows.connection_state import Array, ConnectionState, connection_state

if TYPE_CHECKING:
    from pandas import DataFrame


def time_to_ack(segments: DataFrame) -> DataFrame:
    """One row per segment with new data: the time until the first ACK of its last byte.

    `segments` is a table of segments (`labs.capture.read`). Columns: `row` (its label there),
    `connection`, `direction` (0 from the client), `at_ns`, `payload_bytes`, `ms` (NaN if no ACK
    of it was captured), `acked_by` (the label of that ACK, or missing). Segments that were
    retransmitted, in part or joined with others, are omitted, because the ACK may be of either
    transmission (RFC 6298 3, Karn's algorithm). So is data with a SYN or a FIN, because the ACK may
    be of the flag.
    """
    from pandas import DataFrame  # noqa: PLC0415  slow to load

    known = connection_state(segments)
    parts = [
        first_acks(known, int(first), int(last), side)
        for first, last in zip(known.starts[:-1], known.starts[1:], strict=True)
        for side in (0, 1)
    ]
    at = numpy.concatenate([part[0] for part in parts]) if parts else numpy.zeros(0, int)
    by = numpy.concatenate([part[1] for part in parts]) if parts else numpy.zeros(0, int)
    acked = by >= 0
    ms = numpy.full(len(at), numpy.nan)
    ms[acked] = (known.time_ns[by[acked]] - known.time_ns[at[acked]]) / 1e6
    found = DataFrame(
        {
            "row": known.rows[at],
            "connection": known.connection[at],
            "direction": known.direction[at],
            "at_ns": known.time_ns[at],
            "payload_bytes": known.length[at],
            "ms": ms,
        }
    )
    labels = DataFrame({"acked_by": known.rows[by]}).where(acked[:, None])
    found["acked_by"] = labels["acked_by"].astype("Int64")
    return found.sort_values("at_ns", kind="stable", ignore_index=True)


def first_acks(known: ConnectionState, first: int, last: int, side: int) -> tuple[Array, Array]:
    """For the connection between two places: the places of one side's new data, and of the first
    ACKs that cover them; -1 if there is none."""
    here = slice(first, last)
    own = (known.direction[here] == side) & (known.length[here] > 0)
    plain = (known.flags[here] & (SYN | FIN)) == 0
    new = numpy.flatnonzero(own & plain & (known.begin[here] >= known.sent[side][here]))
    end = known.end[here]
    new = new[
        ~_again(
            known.begin[here],
            end,
            new,
            numpy.flatnonzero(own & (known.begin[here] < known.sent[side][here])),
        )
    ]
    theirs = numpy.flatnonzero((known.direction[here] != side) & ((known.flags[here] & ACK) != 0))
    if not len(theirs):
        return new + first, numpy.full(len(new), -1)
    reach = numpy.maximum.accumulate(known.ack[here][theirs])
    which = numpy.searchsorted(reach, end[new], side="left")
    # An ACK that precedes its segment in the file was captured out of order.
    found = numpy.where(which < len(theirs), theirs[numpy.minimum(which, len(theirs) - 1)], -1)
    return new + first, numpy.where(found > new, found + first, -1)


def _again(begin: Array, end: Array, new: Array, again: Array) -> Array:
    """For each place of `new` whether a segment of `again` carries any of the same bytes.

    New data is in order and does not overlap, so a segment overlaps a contiguous part of it.
    """
    first = numpy.searchsorted(end[new], begin[again], side="right")
    behind = numpy.searchsorted(begin[new], end[again], side="left")
    covers = numpy.zeros(len(new) + 1, dtype=numpy.int64)
    numpy.add.at(covers, first, 1)
    numpy.add.at(covers, numpy.maximum(first, behind), -1)
    found: Array = numpy.cumsum(covers[:-1]) > 0
    return found


UNBOUNDED_NS: Final = 1 << 60
NEAR_NS: Final = 5_000_000
"""Below this the delay of an ACK, 40 ms and more, cannot be mistaken for distance."""


@dataclass(frozen=True)
class Distance:
    """The RTT of a connection and its two parts: `far_ns` are the times from the place of the
    capture to an end and back; [0] is the client."""

    rtt_ns: int
    far_ns: tuple[int, int]


NEXT_DOOR: Final = Distance(0, (0, 0))


@dataclass(frozen=True, eq=False)
class Distances:
    """Arrays over the segments of `ConnectionState`, equal for all segments of a connection.

    `far_ns` are the times from the place of the capture to each end and back, almost zero for the
    end at which it was taken; `rtt_ns` is their sum. Each is the shortest time that the capture
    shows: of the handshake, unless its SYN or SYN-ACK was repeated (Karn's algorithm), and of all
    ACKs of data that was sent once.

    If not `measured`, these are upper bounds: there is no such handshake, and an end acknowledged
    nothing of which it is certain that it did so at once. UNBOUNDED_NS without any.
    """

    measured: Array
    rtt_ns: Array
    far_ns: tuple[Array, Array]

    def most(self, at: int) -> Distance:
        """The distances at a place, or their upper bounds."""
        return Distance(int(self.rtt_ns[at]), (int(self.far_ns[0][at]), int(self.far_ns[1][at])))


def distances(known: ConnectionState) -> Distances:
    """Measure how far both ends of each connection are."""
    count = len(known.starts) - 1
    which = numpy.repeat(numpy.arange(count), numpy.diff(known.starts))
    far = _handshakes(known, which, count)
    certain: Array = numpy.asarray(far < UNBOUNDED_NS)
    for number in numpy.unique(which[known.carrying]).tolist():
        first, last = map(int, known.starts[number : number + 2])
        for side in (0, 1):
            shortest, at_once = _acknowledged_ns(known, first, last, side)
            far[side, number] = min(far[side, number], shortest)
            certain[side, number] |= at_once
    # An end next door needs no proof: whatever the bound hides is too short to matter.
    certain |= far <= NEAR_NS
    rtt = numpy.minimum(far[0] + far[1], UNBOUNDED_NS)
    measured: Array = numpy.asarray(certain.all(axis=0))
    return Distances(measured[which], rtt[which], (far[0][which], far[1][which]))


def _acknowledged_ns(known: ConnectionState, first: int, last: int, side: int) -> tuple[int, bool]:
    """The shortest time in which that side acknowledged new data of the other, and whether it
    certainly did so at once: by an ACK of two full segments."""
    at, by = first_acks(known, first, last, 1 - side)
    at, by = at[by >= 0], by[by >= 0]
    if not len(at):
        return UNBOUNDED_NS, False
    times = known.time_ns[by] - known.time_ns[at]
    shortest = int(times.min())
    newest = known.end[at] == known.ack[by]  # the segment that made the receiver answer
    covered = known.ack[by] - known.acked[1 - side][by]
    at_once = newest & (covered >= 2 * known.mss_bytes[by]) & (times <= 2 * shortest + NEAR_NS)
    return max(0, shortest), bool(at_once.any())


def _handshakes(known: ConnectionState, which: Array, count: int) -> Array:
    """Both parts of each connection's handshake in ns; UNBOUNDED_NS for a part that is missing, or
    that cannot be told because its SYN or SYN-ACK was repeated."""
    place, end = numpy.arange(len(known)), len(known)
    kind = known.flags & (SYN | ACK)

    def first_of(chosen: Array) -> Array:
        found = numpy.full(count, end)
        numpy.minimum.at(found, which[chosen], place[chosen])
        return found

    def number_of(chosen: Array) -> Array:
        return numpy.bincount(which[chosen], minlength=count)

    asks, answers = kind == SYN, (kind == (SYN | ACK)) & (known.direction == 1)
    asked, answered = first_of(asks), first_of(answers)
    agrees = (kind == ACK) & (known.direction == 0) & ((known.flags & RST) == 0)
    agrees &= place > answered[which]
    agreed = first_of(agrees)
    # Karn's algorithm: the answer may be to either of two SYNs.
    asked_once, answered_once = number_of(asks) == 1, number_of(answers) == 1
    far = numpy.full((2, count), UNBOUNDED_NS)
    time = numpy.append(known.time_ns, 0)
    server = (asked < answered) & (answered < end) & asked_once
    client = (agreed < end) & answered_once
    far[1, server] = numpy.maximum(0, time[answered] - time[asked])[server]
    far[0, client] = numpy.maximum(0, time[agreed] - time[answered])[client]
    return far


def spread_ms(known: ConnectionState, first: int, last: int) -> tuple[float, float, float] | None:
    """The 10th, 50th and 90th percentile of a connection's RTT as the senders of its data saw it,
    by the ACKs of data that was sent once; None without any."""
    found = []
    for side in (0, 1):
        at, by = first_acks(known, first, last, side)
        found.append((known.time_ns[by] - known.time_ns[at])[by >= 0])
    times = numpy.concatenate(found)
    if not len(times):
        return None
    low, middle, high = numpy.percentile(times, (10, 50, 90)) / 1e6
    return float(low), float(middle), float(high)
