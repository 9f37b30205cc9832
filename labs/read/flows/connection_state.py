"""The state of both ends of a connection at every segment: sent, acknowledged, window."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy

from labs.drive.testbed.link import MSS_BYTES
from labs.errors import BadInput
from labs.read.capture.segment_table import FIN, IN_PARTS, PSH, SYN, Table, must_fit
from labs.read.capture.tcp_marks import Marker
from labs.read.flows import both_sides
from labs.read.flows.acknowledged import NOT_ONCE, find_first_acks

Array: TypeAlias = numpy.ndarray[Any, numpy.dtype[Any]]
Column: TypeAlias = "memoryview[int]"
COLUMNS = (
    "time_ns",
    "connection",
    "direction",
    "flags",
    "payload_bytes",
    "seq_rel",
    "ack_rel",
    "window",
    "window_bytes",
    "ip_id",
    "content",
    "frame",
    "sack_blocks",
    "tsval",
    "tsecr",
)
"""The columns of the table of segments that `connection_state` uses."""
ROW_BYTES = 250
"""Peak memory of `connection_state` per row, besides the table; measured."""

TIMESTAMPS_BYTES = 12
LEAST_BYTES = 48
"""TCP_MIN_SND_MSS: Linux never uses a smaller MSS, whatever the other side offers."""
LEAST_SEEN_BYTES = 536


class Elements(NamedTuple):
    """Columns of `ConnectionState` as memoryviews, for code that reads single elements: their
    numbers are Python's, which are read several times as fast as those of numpy. Do not compare a
    slice of a memoryview with a number."""

    time_ns: Column
    direction: Column
    flags: Column
    length: Column
    begin: Column
    end: Column
    ack: Column
    offered: Column
    marks: Column
    mss_bytes: Column
    ip_id: Column
    content: Column
    sacks: Column
    repeats: Column
    carrying: Column
    sent: tuple[Column, Column]
    acked: tuple[Column, Column]
    edge: tuple[Column, Column]
    window: tuple[Column, Column]
    shut: tuple[Column, Column]
    small: tuple[Column, Column]


@dataclass(frozen=True, eq=False)
class ConnectionState:
    """Arrays over the segments, grouped by connection, in the order of the capture.

    A pair of arrays is of the client [0] and of the server [1], before each segment; -1 while
    unknown. All sequence numbers are relative.
    """

    order: Array  # their places in the table
    rows: Array  # ... and their labels there
    frame: Array  # numbers of the packets in the file, from 1
    time_ns: Array
    connection: Array
    direction: Array  # 0 from the client, 1 from the server
    flags: Array
    length: Array  # payload in bytes
    begin: Array  # the segment's first sequence number
    end: Array  # ... and the one after its last
    ack: Array
    offered: Array  # its window in bytes, -1 if the scale is unknown
    marks: Array  # bits of labs.read.capture.tcp_marks
    mss_bytes: Array  # payload of a full segment, see mss_bytes()
    ip_id: Array  # -1 for IPv6
    content: Array  # what the payload begins with, see segment_table
    sacks: Array  # whether it selectively acknowledges data above its ACK
    tsval: Array  # its timestamp, -1 if none
    tsecr: Array  # ... and the one that it echoes
    repeats: Array  # where the data begins that it says came twice (DSACK, RFC 2883); else -1
    sent: tuple[Array, Array]  # the highest sequence number sent
    acked: tuple[Array, Array]  # how far the other end had acknowledged
    edge: tuple[Array, Array]  # how far the other end allowed to send
    window: tuple[Array, Array]  # in bytes, of the last segment
    shut: tuple[Array, Array]  # 1 if that window was 0, which needs no window scale
    small: tuple[Array, Array]  # the end of the last new segment that was not full
    starts: Array  # where each connection begins, and the end of the last
    carrying: Array  # places of the segments with payload

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def each(self) -> Elements:
        """The columns for reading single elements."""
        columns = [getattr(self, name) for name in Elements._fields]
        return Elements._make(
            (column[0].data, column[1].data) if isinstance(column, tuple) else column.data
            for column in columns
        )

    @cached_property
    def acked_by(self) -> Array:
        """The place of the first ACK of each segment with new data, -1 if none was captured;
        NOT_ONCE of all other segments, and of data that was sent again."""
        acked_by = numpy.full(len(self), NOT_ONCE, dtype=numpy.int64)
        fresh, covers = numpy.zeros((2, len(self) + 1), dtype=numpy.int64)
        columns = (self.direction, self.flags, self.length, self.begin, self.end, self.ack)
        find_first_acks(self.starts, *columns, *self.sent, fresh, covers, acked_by)
        return acked_by

    def gaps_ns(self) -> Array:
        """The time since the previous segment of the same connection; 0 for the first one."""
        gaps = numpy.diff(self.time_ns, prepend=self.time_ns[:1])
        gaps[self.starts[:-1]] = 0
        return gaps


def connection_state(segments: Table) -> ConnectionState:
    """The state of all connections of a table of segments (`labs.capture.read`).

    Raises Missing if that takes more memory than is available, BadInput for a table with other
    directions than 0 and 1.
    """
    _must_be_readable(segments)
    order = numpy.argsort(numpy.asarray(segments["connection"]), kind="stable")
    column = {name: numpy.asarray(segments[name])[order] for name in COLUMNS}
    connection, direction, flags = (column[name] for name in ("connection", "direction", "flags"))
    begin, ack = column["seq_rel"], column["ack_rel"]
    length, window = (
        column[name].astype(numpy.int64) for name in ("payload_bytes", "window_bytes")
    )
    end = begin + length + ((flags & (SYN | FIN)) != 0)
    starts = numpy.append(
        numpy.flatnonzero(numpy.diff(connection, prepend=both_sides.NONE)), len(order)
    )
    full = mss_bytes(segments)[order]
    states = numpy.empty((both_sides.ROWS, len(order)), dtype=numpy.int64)
    columns = (direction, flags, length, end, ack, window, column["window"], full)
    scratch = numpy.empty(both_sides.ROWS, dtype=numpy.int64)
    both_sides.write_states(starts, *columns, scratch, states)

    def both(row: int) -> tuple[Array, Array]:
        return states[row], states[row + 1]

    sacks, repeats = _selective(segments)
    return ConnectionState(
        order=order,
        rows=numpy.asarray(segments.index)[order],
        time_ns=column["time_ns"],
        connection=connection,
        direction=direction,
        flags=flags,
        length=length,
        begin=begin,
        end=end,
        ack=ack,
        offered=window,
        marks=Marker().bits(segments)[order],
        mss_bytes=full,
        frame=column["frame"],
        ip_id=column["ip_id"],
        content=column["content"],
        sacks=sacks[order],
        tsval=column["tsval"],
        tsecr=column["tsecr"],
        repeats=repeats[order],
        sent=both(both_sides.SENT),
        acked=both(both_sides.ACKED),
        edge=both(both_sides.EDGE),
        window=both(both_sides.WINDOW),
        shut=both(both_sides.SHUT),
        small=both(both_sides.SMALL),
        starts=starts,
        carrying=numpy.flatnonzero(length > 0),
    )


def _must_be_readable(segments: Table) -> None:
    must_fit(
        len(segments) * ROW_BYTES, f"the connection state of {len(segments):,} segments", IN_PARTS
    )
    direction = numpy.asarray(segments["direction"])
    if len(direction) and not 0 <= direction.min() <= direction.max() <= 1:
        raise BadInput(
            f"the table of segments has a direction of {int(direction.min())} or "
            f"{int(direction.max())}. Allowed: 0 (from the client) and 1 (from the server)"
        )


def _selective(segments: Table) -> tuple[Array, Array]:
    """For each row of the table: whether it has a SACK block above its ACK, and the beginning of
    its first block if that is a DSACK: below the ACK, or inside the second block (RFC 2883 4)."""
    count = len(segments)
    sacks, repeats = (
        numpy.zeros(count, dtype=bool),
        numpy.full(count, both_sides.NONE, dtype=numpy.int64),
    )
    some = numpy.flatnonzero(numpy.asarray(segments["sack_blocks"]) > 0)
    if not len(some):
        return sacks, repeats
    ack = numpy.asarray(segments["ack"])[some]
    blocks = numpy.asarray(segments["sack_blocks"])[some]

    def beyond(name: str) -> Array:
        edge = numpy.asarray(segments[name])[some]
        relative: Array = (edge - ack).astype(numpy.int32).astype(numpy.int64)
        return relative

    left, right = beyond("sack_left_1"), beyond("sack_right_1")
    left_2, right_2 = beyond("sack_left_2"), beyond("sack_right_2")
    inside = (blocks > 1) & (left >= left_2) & (right <= right_2)
    twice = (right <= 0) | inside
    repeats[some] = numpy.where(
        twice, numpy.asarray(segments["ack_rel"])[some] + left, both_sides.NONE
    )
    sacks[some] = ~twice | (blocks > 1)
    return sacks, repeats


def mss_bytes(segments: Table) -> Array:
    """For each row of a table of segments: the bytes of payload of a full segment.

    It is the smaller of the two MSS options, minus 12 if both ends use timestamps. If the capture
    lacks one of the SYNs, it is the smallest payload of at least 536 bytes that occurs twice among
    segments without PSH (they are full, because more of the write follows); else 1448.
    Source: net/ipv4/tcp_output.c tcp_mtu_to_mss(), tcp_current_mss(); net/ipv4/tcp.c
    tcp_mark_push().
    """
    if not len(segments):
        return numpy.zeros(0, dtype=numpy.int32)
    connection = numpy.asarray(segments["connection"])
    mss = _agreed(segments, connection)
    unknown = (mss == 0)[connection]
    if unknown.any():
        _as_seen(segments, unknown, mss)
    _without_stamps(segments, connection, mss)
    mss[mss == 0] = MSS_BYTES
    full: Array = mss[connection]
    return full


def _agreed(segments: Table, connection: Array) -> Array:
    """For each connection the MSS by the last SYNs of its sides; 0 if unknown."""
    syn = numpy.flatnonzero((numpy.asarray(segments["flags"]) & SYN) != 0)
    side = numpy.asarray(segments["direction"])[syn], connection[syn]
    offered, stamped = numpy.zeros((2, 2, int(connection.max()) + 1), dtype=numpy.int32)
    offered[side] = numpy.asarray(segments["mss"])[syn]
    stamped[side] = numpy.asarray(segments["tsval"])[syn] >= 0
    both = offered.min(axis=0)
    full = numpy.maximum(both, LEAST_BYTES) - TIMESTAMPS_BYTES * stamped.min(axis=0)
    mss: Array = numpy.where(both > 0, full, 0).astype(numpy.int32)
    return mss


def _without_stamps(segments: Table, connection: Array, mss: Array) -> None:
    """Correct it where the timestamps were not captured: nothing is as long as the MSS says, and
    segments that are 12 bytes shorter repeat."""
    length = numpy.asarray(segments["payload_bytes"])
    stamped = mss - TIMESTAMPS_BYTES
    count = len(mss)
    row_mss = mss[connection]
    whole = numpy.bincount(connection, (length > 0) & (row_mss > 0) & (length >= row_mss), count)
    short = numpy.bincount(connection, (row_mss > 0) & (length == stamped[connection]), count)
    mss[(whole == 0) & (short >= 2)] -= TIMESTAMPS_BYTES


def _as_seen(segments: Table, unknown: Array, mss: Array) -> None:
    """Estimate it from the payloads of the connections in `unknown`."""
    length = numpy.asarray(segments["payload_bytes"])
    whole = (numpy.asarray(segments["flags"]) & (FIN | SYN | PSH)) == 0
    chosen = numpy.flatnonzero(unknown & whole & (length >= LEAST_SEEN_BYTES))
    sizes = numpy.asarray(segments["connection"])[chosen].astype(numpy.int64) << 32 | length[chosen]
    each, times = numpy.unique(sizes, return_counts=True)
    again = each[times > 1][::-1]  # of one connection the smallest is entered last
    mss[again >> 32] = again & 0xFFFFFFFF
