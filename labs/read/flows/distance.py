"""How far the two ends of a connection are from the place of the capture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy

from labs.read.flows.connection_state import ACK, NONE, SYN, Array, Sides
from labs.read.flows.time_to_ack import first_acks

UNBOUNDED_NS: Final = 1 << 60


@dataclass(frozen=True)
class Distance:
    """The RTT of a connection and its two parts: `far_ns` are the times from the place of the
    capture to a side and back, [0] for the opener."""

    rtt_ns: int
    far_ns: tuple[int, int]


NEXT_DOOR: Final = Distance(0, (0, 0))


@dataclass(frozen=True, eq=False)
class Distances:
    """Arrays over the segments of `Sides`, the same for all segments of a connection.

    Where `measured`, the capture has SYN, SYN-ACK and ACK: `rtt_ns` is the time from the last SYN
    to the first ACK after it, which is one RTT wherever the capture was taken. `far_ns` are its
    two parts: how long a side's immediate answer takes to the place of the capture and back; next
    to nothing for the side that the capture was taken on.

    Elsewhere the RTT is unknown, and these are upper bounds. No answer is faster than the
    distance, so the shortest time in which a side acknowledged new data is a bound of its
    `far_ns`, and so is what there is of the handshake. UNBOUNDED_NS where there is neither.
    """

    measured: Array
    rtt_ns: Array
    far_ns: tuple[Array, Array]

    def most(self, at: int) -> Distance:
        """The distances at a place, or the most that they may be."""
        return Distance(int(self.rtt_ns[at]), (int(self.far_ns[0][at]), int(self.far_ns[1][at])))


def distances(known: Sides) -> Distances:
    """Measure the distances by handshakes; bound those that have none."""
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


def _fastest_ns(known: Sides, first: int, last: int, side: int) -> int:
    """The shortest time in which that side acknowledged new data of the other."""
    at, by = first_acks(known, first, last, 1 - side)
    times = (known.time_ns[by] - known.time_ns[at])[by >= 0]
    return max(0, int(times.min())) if len(times) else UNBOUNDED_NS


def _handshakes(known: Sides, which: Array, count: int) -> tuple[Array, Array]:
    """By connection whether the capture has its handshake, and both parts of it in ns, or what
    bounds them: all of it where the SYN-ACK is missing, the second part where the SYN is."""
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
    # Where the last SYN comes after the SYN-ACK, all of the handshake counts as the opener's part.
    late = numpy.maximum(answered, asked)
    part[replied] = time[first[replied]] - time[late[replied]]
    measured = begun & replied
    far[0] = numpy.where(replied, part, numpy.where(begun, whole, far[0]))
    far[1] = numpy.where(measured, whole - part, numpy.where(begun, whole, far[1]))
    far[:, ~measured] = numpy.maximum(far[:, ~measured], 0)
    return measured, far
