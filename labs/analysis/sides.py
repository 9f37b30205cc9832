"""What each side of a connection had sent, had acknowledged and might send, at every segment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy

from labs.capture.marks import Marker

if TYPE_CHECKING:
    from pandas import DataFrame

Array: TypeAlias = numpy.ndarray[Any, numpy.dtype[Any]]
FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10
NONE = -1


@dataclass(frozen=True, eq=False)
class Sides:
    """Arrays over the segments, those of one connection together, in the order of the capture.

    `rows` are the labels of the table. Of what belongs to a side there are two arrays, [0] for
    the opener: `sent`, where its sequence numbers had come to before this segment, `acked`, how
    far the other side had acknowledged them, `edge`, how far the other side let it send; -1 while
    nothing is known. All three are relative numbers. `starts` are the places where connections
    begin, and the end.
    """

    rows: Array
    time_ns: Array
    connection: Array
    direction: Array
    flags: Array
    payload: Array
    begin: Array
    end: Array
    ack: Array
    window: Array
    marks: Array
    sent: tuple[Array, Array]
    acked: tuple[Array, Array]
    edge: tuple[Array, Array]
    starts: Array

    def __len__(self) -> int:
        return len(self.rows)

    def gaps_ns(self) -> Array:
        """The time since the segment before on the same connection; 0 for the first one."""
        gaps = numpy.diff(self.time_ns, prepend=self.time_ns[:1])
        gaps[self.starts[:-1]] = 0
        return gaps

    def span(self, at: int) -> tuple[int, int]:
        """Where the connection of the segment at that place begins and ends."""
        which = int(numpy.searchsorted(self.starts, at, side="right"))
        return int(self.starts[which - 1]), int(self.starts[which])

    def rtt_ns(self, at: int) -> int:
        """The handshake of a segment's connection, from the last SYN to the first ACK after it.

        That is one round trip wherever the capture was taken; 0 if it does not have it.
        """
        first, last = self.span(at)
        flags = self.flags[first:last]
        asked = numpy.flatnonzero((flags & (SYN | ACK)) == SYN)
        agreed = numpy.flatnonzero(((flags & (SYN | ACK)) == ACK)
                                   & (self.direction[first:last] == 0))
        if not len(asked) or not len(agreed) or agreed[0] < asked[0]:
            return 0
        asked = asked[asked < agreed[0]]
        return int(self.time_ns[first + agreed[0]] - self.time_ns[first + asked[-1]])


def sides(segments: DataFrame) -> Sides:
    """Work through a table of segments (`labs.capture.read`); its rows may be of any capture."""
    order = numpy.argsort(segments["connection"].to_numpy(), kind="stable")
    column = {name: segments[name].to_numpy()[order] for name in (
        "time_ns", "connection", "direction", "flags", "payload_bytes", "seq_rel", "ack_rel",
        "window_bytes")}
    flags = column["flags"].astype(numpy.int64)
    begin, ack = column["seq_rel"].astype(numpy.int64), column["ack_rel"].astype(numpy.int64)
    end = begin + column["payload_bytes"] + ((flags & (SYN | FIN)) != 0)
    starts = numpy.flatnonzero(numpy.diff(column["connection"], prepend=NONE))
    told = (flags & ACK) != 0
    sent, acked, edge = [], [], []
    for side in (0, 1):
        own = column["direction"] == side
        theirs = ~own & told
        sent.append(_before(numpy.where(own, end, NONE), column["connection"], "cummax"))
        acked.append(_before(numpy.where(theirs, ack, NONE), column["connection"], "cummax"))
        edge.append(_before(numpy.where(theirs, ack + column["window_bytes"], NONE),
                            column["connection"], "last"))
    return Sides(
        rows=segments.index.to_numpy()[order], time_ns=column["time_ns"],
        connection=column["connection"], direction=column["direction"].astype(numpy.int64),
        flags=flags, payload=column["payload_bytes"].astype(numpy.int64), begin=begin, end=end,
        ack=ack, window=column["window_bytes"].astype(numpy.int64),
        marks=Marker().bits(segments)[order].astype(numpy.int64),
        sent=(sent[0], sent[1]), acked=(acked[0], acked[1]), edge=(edge[0], edge[1]),
        starts=numpy.append(starts, len(order)))


def _before(values: Array, connection: Array, how: str) -> Array:
    """The highest or the last known value among the segments before each, on its connection."""
    from pandas import Series

    known = Series(values)
    if how == "cummax":
        known = known.groupby(connection).cummax()
    else:
        known = known.mask(known == NONE).groupby(connection).ffill()
    shifted = known.groupby(connection).shift(1)
    found: Array = shifted.fillna(NONE).to_numpy(dtype=numpy.int64)
    return found
