"""RTTs at the place of the capture: the time to each ACK, and the distance to both ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy
from pandas import DataFrame

from labs.read.capture.segment_table import ACK, FIN, SYN
from labs.read.flows.connection_state import NONE, Array, ConnectionState, connection_state


def time_to_ack(segments: DataFrame) -> DataFrame:
    """One row per segment with new data: the time until the first ACK of its last byte.

    `segments` is a table of segments (`labs.capture.read`). Columns: `row` (its label there),
    `connection`, `direction` (0 from the client), `at_ns`, `payload_bytes`, `ms` (NaN if no ACK
    of it was captured), `acked_by` (the label of that ACK, or missing). Segments that were
    retransmitted, in part or joined with others, are omitted, because the ACK may be of either
    transmission (RFC 6298 3, Karn's algorithm). So is data with a SYN or a FIN, because the ACK may
    be of the flag.
    """
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

    If `measured`, the capture has SYN, SYN-ACK and ACK: `rtt_ns` is the time from the last SYN to
    the first ACK after it, which is one RTT wherever the capture was taken. `far_ns` are its two
    parts: the time from the place of the capture to a side and back; almost zero for the side on
    which it was taken.

    Otherwise the RTT is unknown, and these are upper bounds. No answer is faster than the distance,
    so the shortest time in which a side acknowledged new data is a bound of its `far_ns`, and so is
    an incomplete handshake. UNBOUNDED_NS without either.
    """

    measured: Array
    rtt_ns: Array
    far_ns: tuple[Array, Array]

    def most(self, at: int) -> Distance:
        """The distances at a place, or their upper bounds."""
        return Distance(int(self.rtt_ns[at]), (int(self.far_ns[0][at]), int(self.far_ns[1][at])))


def distances(known: ConnectionState) -> Distances:
    """Measure the distances by handshakes; bound those without one."""
    count = len(known.starts) - 1
    which = numpy.repeat(numpy.arange(count), numpy.diff(known.starts))
    measured, far = _handshakes(known, which, count)
    data = numpy.zeros(count, dtype=bool)
    data[which[known.carrying]] = True
    for number in numpy.flatnonzero(data & ~measured).tolist():
        first, last = map(int, known.starts[number : number + 2])
        for side in (0, 1):
            far[side, number] = min(far[side, number], _fastest_ns(known, first, last, side))
    rtt = numpy.minimum(far[0] + far[1], UNBOUNDED_NS)
    return Distances(measured[which], rtt[which], (far[0][which], far[1][which]))


def _fastest_ns(known: ConnectionState, first: int, last: int, side: int) -> int:
    """The shortest time in which that side acknowledged new data of the other."""
    at, by = first_acks(known, first, last, 1 - side)
    times = (known.time_ns[by] - known.time_ns[at])[by >= 0]
    return max(0, int(times.min())) if len(times) else UNBOUNDED_NS


def _handshakes(known: ConnectionState, which: Array, count: int) -> tuple[Array, Array]:
    """For each connection whether the capture has its handshake, and both parts of it in ns, or
    their bounds: all of it if the SYN-ACK is missing, the second part if the SYN is."""
    place, end = numpy.arange(len(known)), len(known)
    kind = known.flags & (SYN | ACK)
    agreed = (kind == ACK) & (known.direction == 0)
    first = numpy.full(count, end)
    numpy.minimum.at(first, which[agreed], place[agreed])

    def last(chosen: Array) -> Array:
        found = numpy.full(count, NONE)
        chosen = chosen & (place < first[which])
        numpy.maximum.at(found, which[chosen], place[chosen])
        return found

    asked = last(kind == SYN)
    answered = last((kind == (SYN | ACK)) & (known.direction == 1))
    far = numpy.full((2, count), UNBOUNDED_NS)
    begun, replied = ((found >= 0) & (first < end) for found in (asked, answered))
    time = known.time_ns
    whole, part = numpy.zeros((2, count), dtype=numpy.int64)
    whole[begun] = time[first[begun]] - time[asked[begun]]
    # If the last SYN follows the SYN-ACK, the whole handshake counts as the client's part.
    late = numpy.maximum(answered, asked)
    part[replied] = time[first[replied]] - time[late[replied]]
    measured = begun & replied
    far[0] = numpy.where(replied, part, numpy.where(begun, whole, far[0]))
    far[1] = numpy.where(measured, whole - part, numpy.where(begun, whole, far[1]))
    far[:, ~measured] = numpy.maximum(far[:, ~measured], 0)
    return measured, far
