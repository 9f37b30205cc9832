"""What each side of a connection had sent, had acknowledged and might send, at every segment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy

from labs.read.capture.row_limit import IN_PARTS, must_fit
from labs.read.capture.tcp_marks import Marker
from labs.read.flows.mss import mss_bytes

if TYPE_CHECKING:
    from pandas import DataFrame

Array: TypeAlias = numpy.ndarray[Any, numpy.dtype[Any]]
FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10
NONE = -1
ROW_BYTES = 300
"""What `sides` takes beside the table at its highest, a row; measured."""


@dataclass(frozen=True, eq=False)
class Sides:
    """Arrays over the segments, those of one connection together, in the order of the capture.

    `rows` are the labels of the table. Of what belongs to a side there are two arrays, [0] for
    the opener, that tell what was so before this segment: `sent`, where its sequence numbers had
    come to, `acked`, how far the other side had acknowledged them, `edge`, how far the other side
    let it send, `small`, the end of its last segment with new data that was not full (all four
    relative numbers), `window`, that of its last segment, and `shut`, 1 if that was 0, which is
    known without its scale; -1 while nothing is known.
    `mss_bytes` is what a full segment holds (`flows.mss`); a frame that the device cuts up
    (TSO) is not full where its last piece is not. `starts` are the places where connections begin,
    and the end of the last; `carrying` those of segments with payload.
    """

    rows: Array
    time_ns: Array
    connection: Array
    direction: Array
    flags: Array
    length: Array
    begin: Array
    end: Array
    ack: Array
    marks: Array
    mss_bytes: Array
    sent: tuple[Array, Array]
    acked: tuple[Array, Array]
    edge: tuple[Array, Array]
    window: tuple[Array, Array]
    shut: tuple[Array, Array]
    small: tuple[Array, Array]
    starts: Array
    carrying: Array

    def __len__(self) -> int:
        return len(self.rows)

    def gaps_ns(self) -> Array:
        """The time since the segment before on the same connection; 0 for the first one."""
        gaps = numpy.diff(self.time_ns, prepend=self.time_ns[:1])
        gaps[self.starts[:-1]] = 0
        return gaps

    def end_of(self, at: int) -> int:
        """The place behind the last segment of the connection of the segment at that place."""
        return int(self.starts[numpy.searchsorted(self.starts, at, side="right")])

    def next_carrying(self, at: int) -> int | None:
        """The place of the next segment with payload on the connection of that at `at`."""
        after = int(numpy.searchsorted(self.carrying, at, side="right"))
        if after == len(self.carrying) or self.carrying[after] >= self.end_of(at):
            return None
        return int(self.carrying[after])


def sides(segments: DataFrame) -> Sides:
    """Work through a table of segments (`labs.capture.read`); its rows may be of any capture.

    Raises Missing where that takes more memory than there is.
    """
    must_fit(len(segments) * ROW_BYTES, f"the two sides of {len(segments):,} segments", IN_PARTS)
    order = numpy.argsort(segments["connection"].to_numpy(), kind="stable")
    column = {
        name: segments[name].to_numpy()[order]
        for name in (
            "time_ns",
            "connection",
            "direction",
            "flags",
            "payload_bytes",
            "seq_rel",
            "ack_rel",
            "window",
            "window_bytes",
        )
    }
    connection, direction = column["connection"], column["direction"].astype(numpy.int64)
    flags, length = (column[name].astype(numpy.int64) for name in ("flags", "payload_bytes"))
    begin, ack, window = (
        column[name].astype(numpy.int64) for name in ("seq_rel", "ack_rel", "window_bytes")
    )
    end = begin + length + ((flags & (SYN | FIN)) != 0)
    starts = numpy.append(numpy.flatnonzero(numpy.diff(connection, prepend=NONE)), len(order))
    own = (direction == 0, direction == 1)
    told = (flags & ACK) != 0

    def before(which: Array, values: Array, how: str = "last") -> Array:
        return _before(numpy.where(which, values, NONE), connection, how)

    def both(values: Array, which: Array | None = None) -> tuple[Array, Array]:
        first, second = (side if which is None else side & which for side in own)
        return before(first, values), before(second, values)

    edges = both(ack + window, told & (window >= 0))
    sent = before(own[0], end, "cummax"), before(own[1], end, "cummax")
    full = mss_bytes(segments)[order]
    # As the kernel keeps it (tcp_minshall_update): what is sent again changes nothing.
    small = (length % full != 0) & (end > numpy.where(own[0], *sent))
    return Sides(
        rows=segments.index.to_numpy()[order],
        time_ns=column["time_ns"],
        connection=connection,
        direction=direction,
        flags=flags,
        length=length,
        begin=begin,
        end=end,
        ack=ack,
        marks=Marker().bits(segments)[order].astype(numpy.int64),
        mss_bytes=full,
        sent=sent,
        acked=(before(own[1] & told, ack, "cummax"), before(own[0] & told, ack, "cummax")),
        edge=(edges[1], edges[0]),
        window=both(window),
        shut=both((column["window"] == 0).astype(numpy.int64), told & ((flags & RST) == 0)),
        small=both(end, small),
        starts=starts,
        carrying=numpy.flatnonzero(length > 0),
    )


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
