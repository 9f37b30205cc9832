"""The state of both ends of a connection at every segment: sent, acknowledged, window."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, Generic, TypeAlias, TypeVar

import numpy

from labs.errors import BadInput
from labs.guest.testbed.link import MSS_BYTES
from labs.read.capture.segment_table import ACK, FIN, IN_PARTS, PSH, RST, SYN, Table, must_fit
from labs.read.capture.tcp_marks import Marker
from labs.read.native.compiled import Int8s, Int32s, Int64s, Uint16s, native

Array: TypeAlias = numpy.ndarray[Any, numpy.dtype[Any]]
Column: TypeAlias = "memoryview[int]"
Values = TypeVar("Values")
Pairs = TypeVar("Pairs")
COLUMNS: Final = (
    "time_ns", "connection", "direction", "flags", "payload_bytes", "seq_rel", "ack_rel",
    "window", "window_bytes", "ip_id", "ttl", "content", "frame", "sack_blocks", "tsval", "tsecr",
)  # fmt: skip
"""The columns of the table of segments that `connection_state` uses."""
ROW_BYTES: Final = 250
"""Peak memory of `connection_state` per row, besides the table; measured."""
TIMESTAMPS_BYTES: Final = 12
LEAST_BYTES: Final = 48
"""TCP_MIN_SND_MSS: Linux never uses a smaller MSS, whatever the other side offers."""
LEAST_SEEN_BYTES: Final = 536
NONE: Final = -1
NOT_ONCE: Final = -2
"""Of what is no data, not new, or (in part) retransmitted later; -1 is data without an ACK."""
NOTHING: Final = -(1 << 62)

# Rows of `states`. Each constant is the client's row; the server's is the next one.
SENT: Final = 0
ACKED: Final = 2
EDGE: Final = 4
WINDOW: Final = 6
SHUT: Final = 8
SMALL: Final = 10
ROWS: Final = 12
STATES: Final = ("sent", "acked", "edge", "window", "shut", "small")


@dataclass(frozen=True, eq=False)
class Columns(Generic[Values, Pairs]):
    """What is known at each segment of a capture, grouped by connection, in the order of the file.

    A pair is of the client [0] and of the server [1], before each segment; -1 while unknown. All
    sequence numbers are relative.
    """

    frame: Values  # numbers of the packets in the file, from 1
    time_ns: Values
    direction: Values  # 0 from the client, 1 from the server
    flags: Values
    length: Values  # payload in bytes
    begin: Values  # the segment's first sequence number
    end: Values  # ... and the one after its last
    ack: Values
    offered: Values  # its window in bytes, -1 if the scale is unknown
    marks: Values  # bits of labs.read.capture.tcp_marks
    mss_bytes: Values  # payload of a full segment, see mss_bytes()
    ip_id: Values  # -1 for IPv6
    ttl: Values
    content: Values  # what the payload begins with, see segment_table
    sacks: Values  # whether it selectively acknowledges data above its ACK
    sack_left: Values  # the lowest edge of its SACK blocks above its ACK; -1 if none
    sack_right: Values  # ... and the highest
    tsval: Values  # its timestamp, -1 if none
    tsecr: Values  # ... and the one that it echoes
    repeats: Values  # where the data begins that it says came twice (DSACK, RFC 2883); else -1
    sent: Pairs  # the highest sequence number sent
    acked: Pairs  # how far the other end had acknowledged
    edge: Pairs  # how far the other end allowed to send
    window: Pairs  # in bytes, of the last segment
    shut: Pairs  # 1 if that window was 0, which needs no window scale
    small: Pairs  # the end of the last new segment that was not full
    carrying: Values  # places of the segments with payload


Elements: TypeAlias = Columns[Column, tuple[Column, Column]]
"""The columns as memoryviews."""


@dataclass(frozen=True, eq=False)
class ConnectionState(Columns[Array, Array]):
    """The columns as arrays; pairs have two rows."""

    rows: Array  # labels of the segments in the table
    connection: Array
    starts: Array  # where each connection begins, and the end of the last

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def each(self) -> Elements:
        """The columns as memoryviews, for code that reads single elements: their numbers are
        Python's, which are read several times as fast as those of numpy. Do not compare a slice of
        a memoryview with a number."""
        arrays = {column.name: getattr(self, column.name) for column in fields(Columns)}
        elements: dict[str, Any] = {
            name: tuple(row.data for row in array) if array.ndim == 2 else array.data
            for name, array in arrays.items()
        }
        return Columns(**elements)

    @property
    def edges(self) -> list[tuple[int, int]]:
        """Where each connection begins and ends."""
        return list(pairwise(self.starts.tolist()))

    def frames(self, place: int, first: int = 0) -> tuple[int, int]:
        """The numbers of the packet before that segment, unless it is `first`, and of its own."""
        return self.each.frame[max(first, place - 1)], self.each.frame[place]

    @cached_property
    def acked_by(self) -> Array:
        """The place of the first ACK of each segment with new data, -1 if none was captured;
        NOT_ONCE of all other segments, and of data that was sent again."""
        acked_by = numpy.full(len(self), NOT_ONCE, dtype=numpy.int64)
        fresh, covers = numpy.zeros((2, len(self) + 1), dtype=numpy.int64)
        columns = (self.direction, self.flags, self.length, self.begin, self.end, self.ack)
        find_first_acks(self.starts, *columns, self.sent, fresh, covers, acked_by)
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
    length, window = (
        column[name].astype(numpy.int64) for name in ("payload_bytes", "window_bytes")
    )
    begin, ack = column["seq_rel"], column["ack_rel"]
    end = begin + length + ((flags & (SYN | FIN)) != 0)
    starts = numpy.append(numpy.flatnonzero(numpy.diff(connection, prepend=NONE)), len(order))
    full = mss_bytes(segments)[order]
    states = numpy.empty((ROWS, len(order)), dtype=numpy.int64)
    arrays = (direction, flags, length, end, ack, window, column["window"], full)
    write_states(starts, *arrays, numpy.empty(ROWS, dtype=numpy.int64), states)
    sacks, repeats, left, right = _selective(segments)
    same = {field.name: column[field.name] for field in fields(Columns) if field.name in column}
    pairs = zip(STATES, states.reshape(len(STATES), 2, len(order)), strict=True)
    return ConnectionState(
        **{**same, **dict(pairs)},
        rows=numpy.asarray(segments.index)[order],
        connection=connection,
        length=length,
        begin=begin,
        end=end,
        ack=ack,
        offered=window,
        marks=Marker().bits(segments)[order],
        mss_bytes=full,
        sacks=sacks[order],
        sack_left=left[order],
        sack_right=right[order],
        repeats=repeats[order],
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


def _selective(segments: Table) -> tuple[Array, Array, Array, Array]:
    """For each row of the table: whether it has a SACK block above its ACK, the beginning of its
    first block if that is a DSACK: below the ACK, or inside the second block (RFC 2883 4), and the
    lowest and highest edge of its blocks above the ACK."""
    count = len(segments)
    sacks = numpy.zeros(count, dtype=bool)
    repeats, lowest, highest = numpy.full((3, count), NONE, dtype=numpy.int64)
    some = numpy.flatnonzero(numpy.asarray(segments["sack_blocks"]) > 0)
    if not len(some):
        return sacks, repeats, lowest, highest
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
    repeats[some] = numpy.where(twice, numpy.asarray(segments["ack_rel"])[some] + left, NONE)
    sacks[some] = ~twice | (blocks > 1)
    edges = numpy.array(
        [(beyond(f"sack_left_{n}"), beyond(f"sack_right_{n}")) for n in range(1, 5)]
    )
    above = (edges[:, 0] > 0) & (numpy.arange(1, 5)[:, None] <= blocks)
    relative = numpy.asarray(segments["ack_rel"])[some]
    far = numpy.int64(1) << 40
    has = above.any(axis=0)
    lowest[some] = numpy.where(
        has, relative + numpy.where(above, edges[:, 0], far).min(axis=0), NONE
    )
    highest[some] = numpy.where(
        has, relative + numpy.where(above, edges[:, 1], 0).max(axis=0), NONE
    )
    return sacks, repeats, lowest, highest


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


@native
def write_states(
    starts: Int64s,
    direction: Int8s,
    flags: Uint16s,
    length: Int64s,
    end: Int64s,
    ack: Int64s,
    offered: Int64s,
    window: Uint16s,
    mss_bytes: Int32s,
    now: Int64s,
    states: Int64s,
) -> None:
    """Write the state before each segment into `states`, whose rows are the constants above.

    The other arrays are those of `ConnectionState`, except that `window` is the window as sent, and
    `now` is scratch of ROWS numbers.
    """
    for number in range(len(starts) - 1):
        for row in range(ROWS):
            now[row] = NONE
        for at in range(starts[number], starts[number + 1]):
            for row in range(ROWS):
                states[row, at] = now[row]
            by = direction[at]
            # As in tcp_minshall_update(), retransmissions do not count. A frame that the device
            # splits (TSO) is not full if its last piece is not.
            if length[at] % mss_bytes[at] != 0 and end[at] > now[SENT + by]:
                now[SMALL + by] = end[at]
            now[SENT + by] = max(now[SENT + by], end[at])
            if offered[at] != NONE:
                now[WINDOW + by] = offered[at]
            if flags[at] & ACK:
                _acknowledge(by, ack[at], offered[at], now)
                if not flags[at] & RST:
                    now[SHUT + by] = window[at] == 0


def _acknowledge(by: int, ack: int, offered: int, now: Int64s) -> None:
    """What an ACK of side `by` tells about the data of the other side."""
    now[ACKED + 1 - by] = max(now[ACKED + 1 - by], ack)
    if offered >= 0:
        now[EDGE + 1 - by] = ack + offered


@native
def find_first_acks(
    starts: Int64s,
    direction: Int8s,
    flags: Uint16s,
    length: Int64s,
    begin: Int64s,
    end: Int64s,
    ack: Int64s,
    sent: Int64s,
    fresh: Int64s,
    covers: Int64s,
    acked_by: Int64s,
) -> None:
    """Write the place of the first ACK of each segment into `acked_by`, filled with NOT_ONCE.

    `fresh` and `covers` are scratch, a word longer than the arrays of `ConnectionState`.
    """
    for number in range(len(starts) - 1):
        for side in (0, 1):
            first, last = starts[number], starts[number + 1]
            count = 0
            for at in range(first, last):
                is_plain = direction[at] == side and length[at] > 0 and flags[at] & (SYN | FIN) == 0
                if is_plain and begin[at] >= sent[side, at]:
                    fresh[first + count] = at
                    covers[first + count] = 0
                    count += 1
            covers[first + count] = 0
            # A retransmission overlaps a contiguous part of the new segments: new data is in order.
            for at in range(first, last):
                if direction[at] == side and length[at] > 0 and begin[at] < sent[side, at]:
                    covers[first + _up_to(begin[at], end, fresh, first, count)] += 1
                    covers[first + _up_to(end[at] - 1, begin, fresh, first, count)] -= 1
            again, place, reach = 0, first, NOTHING
            for which in range(first, first + count):
                at = fresh[which]
                again += covers[which]
                if again:
                    continue
                while place < last and reach < end[at]:
                    if direction[place] != side and flags[place] & (ACK | RST) == ACK:
                        reach = max(reach, ack[place])
                    if reach < end[at]:
                        place += 1
                # An ACK that precedes its segment in the file was captured out of order.
                acked_by[at] = place if at < place and place < last else -1


def _up_to(most: int, values: Int64s, fresh: Int64s, first: int, count: int) -> int:
    """How many of the new segments, which are in order, have a value of at most that."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if values[fresh[first + middle]] <= most:
            low = middle + 1
        else:
            high = middle
    return low
