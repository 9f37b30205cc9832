"""Wireshark's marks: retransmission, out of order, duplicate ACK, zero window, window full, probe.

The rules are those of Wireshark 4.0's `tcp_analyze_sequence_number` (epan/dissectors/packet-tcp.c),
in one pass over the segments in the order of the file. Only the last segments of each side are
remembered. The marks depend on the place of the capture: a segment that the network dropped after
that place is marked when it is retransmitted; one that was dropped before it only leaves a gap.

The tests compare them with tshark's `tcp.analysis.*`. They differ if

- more than 10,000 segments of one side are unacknowledged: Wireshark then no longer counts a FIN or
  SYN as a sequence number (TCP_MAX_UNACKED_SEGMENTS); here it is always counted;
- MPTCP is used: for Wireshark an ACK that repeats the last one with another MPTCP option is no
  duplicate ACK (RFC 8684 4); here it is;
- the scale of a side's window is unknown at its last segment, and a SYN without that option
  follows: Wireshark then uses the window as sent; here it is unknown until the next segment;
- the options of a segment were not captured whole: Wireshark counts the segment but does not mark
  it; here it is marked as if they had been;
- a packet is a first fragment: Wireshark does not assign fragments to connections; here it is a
  segment.
"""

from __future__ import annotations

from ctypes import memmove, sizeof
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy

from labs.read.capture.segment_table import ACK, FIN, RST, SYN, Table
from labs.read.native.compiled import (
    Arrays,
    Int8s,
    Int32s,
    Int64s,
    Record,
    Records,
    Uint16s,
    Uint32s,
    native,
    record,
)

if TYPE_CHECKING:
    from pandas import DataFrame

Array: TypeAlias = numpy.ndarray[Any, numpy.dtype[Any]]

# The columns, and their bits in the compiled pass.
RETRANSMISSION: Final = 1 << 0
FAST_RETRANSMISSION: Final = 1 << 1
SPURIOUS_RETRANSMISSION: Final = 1 << 2
OUT_OF_ORDER: Final = 1 << 3
DUPLICATE_ACK: Final = 1 << 4
ZERO_WINDOW: Final = 1 << 5
WINDOW_UPDATE: Final = 1 << 6
WINDOW_FULL: Final = 1 << 7
KEEP_ALIVE: Final = 1 << 8
KEEP_ALIVE_ACK: Final = 1 << 9
ZERO_WINDOW_PROBE: Final = 1 << 10
ZERO_WINDOW_PROBE_ACK: Final = 1 << 11
LOST_SEGMENT: Final = 1 << 12
ACK_LOST_SEGMENT: Final = 1 << 13

MARKS: Final = {
    "retransmission": RETRANSMISSION | FAST_RETRANSMISSION | SPURIOUS_RETRANSMISSION,
    "fast_retransmission": FAST_RETRANSMISSION,
    "spurious_retransmission": SPURIOUS_RETRANSMISSION,
    "out_of_order": OUT_OF_ORDER,
    "duplicate_ack": DUPLICATE_ACK,
    "zero_window": ZERO_WINDOW,
    "window_update": WINDOW_UPDATE,
    "window_full": WINDOW_FULL,
    "keep_alive": KEEP_ALIVE,
    "keep_alive_ack": KEEP_ALIVE_ACK,
    "zero_window_probe": ZERO_WINDOW_PROBE,
    "zero_window_probe_ack": ZERO_WINDOW_PROBE_ACK,
    "lost_segment": LOST_SEGMENT,
    "ack_lost_segment": ACK_LOST_SEGMENT,
}

COLUMNS: Final = (
    "time_ns",
    "connection",
    "direction",
    "seq",
    "ack",
    "flags",
    "window",
    "window_bytes",
    "payload_bytes",
)
EDGE: Final = SYN | FIN | RST
SEQ: Final = 0xFFFFFFFF
HALF: Final = 0x80000000
NO_WINDOW: Final = 0xFFFFFFFF
# The count of duplicate ACKs after an ACK of data that was not captured: -1 as an unsigned number,
# which is larger than any limit.
UNSEEN: Final = SEQ
FAST_NS: Final = 20_000_000
NO_RTT_NS: Final = 3_000_000


@record
class Side(Record):
    """One side of a connection: `next` is the number after its highest segment, `highest` the one
    until which all of its segments were captured, `opening` whether its windows are not scaled
    yet."""

    next: int
    next_ns: int
    highest: int
    last_ack: int
    last_ack_ns: int
    repeated: int
    window: int
    window_bytes: int
    base: int
    base_set: int
    last_marks: int
    opening: int


@record
class Pair(Record):
    """Both sides of a connection, the time of its last SYN, and the duration of its handshake."""

    client: Side
    server: Side
    syn_ns: int
    rtt_ns: int


class Segments(Arrays):
    """The columns of a table of segments, and `marks`, which is written."""

    time_ns: Int64s
    connection: Int32s
    direction: Int8s
    seq: Uint32s
    ack: Uint32s
    flags: Uint16s
    window: Uint16s
    window_bytes: Int32s
    payload_bytes: Int32s
    marks: Uint16s

    def __init__(self, segments: Table, marks: Array) -> None:
        columns = {name: numpy.ascontiguousarray(segments[name]) for name in COLUMNS}
        vars(self).update(columns, marks=marks)


def named_marks(bits: Array, labels: Any) -> DataFrame:
    """Marks as columns of booleans, one row per label, from the bits of `Marker.bits`."""
    from pandas import DataFrame  # noqa: PLC0415  slow to load

    return DataFrame({name: (bits & bit) != 0 for name, bit in MARKS.items()}, index=labels)


def marks(segments: DataFrame) -> DataFrame:
    """The marks of every row of a table of segments, as columns of booleans, in the same order.

    `segments` is what `labs.capture.read` returns. `retransmission` holds for the fast and the
    spurious ones too, as in Wireshark.
    """
    return Marker().marks(segments)


class Marker:
    """The marks of a capture that is read in batches."""

    def __init__(self) -> None:
        self._pairs = (Pair * 0)()

    def marks(self, segments: DataFrame) -> DataFrame:
        """The marks of the next segments; connections keep their numbers from batch to batch."""
        return named_marks(self.bits(segments), segments.index)

    def bits(self, segments: Table) -> Array:
        """The same as one number per row, a sum of the constants of this module."""
        marks = numpy.zeros(len(segments), dtype=numpy.uint16)
        if not len(segments):
            return marks
        self._grow(int(numpy.max(segments["connection"])) + 1)
        _pass(Segments(segments, marks), len(marks), self._pairs)
        return marks

    def _grow(self, connections: int) -> None:
        known = len(self._pairs)
        if connections > known:
            pairs = (Pair * connections)()
            memmove(pairs, self._pairs, sizeof(self._pairs))
            for pair in pairs[known:]:
                for side in (pair.client, pair.server):
                    side.window, side.window_bytes = NO_WINDOW, -1
            self._pairs = pairs


@native
def _pass(segments: Segments, count: int, pairs: Records[Pair]) -> None:
    for row in range(count):
        pair = pairs[segments.connection[row]]
        by_client = segments.direction[row] == 0
        side = pair.client if by_client else pair.server
        other = pair.server if by_client else pair.client
        now, flag, length = segments.time_ns[row], segments.flags[row], segments.payload_bytes[row]
        seq, ack, window = segments.seq[row], segments.ack[row], segments.window[row]
        _begin(side, other, seq, ack, flag)
        bits = _window_marks(side, other, seq, ack, window, length, flag)
        if ack != side.last_ack:
            side.repeated = 0
        bits |= _lost_ack(other, ack, flag)
        bits |= _sent_again(side, other, pair, now, seq, length, flag, bits)
        _remember(side, now, seq, ack, window, length, flag, bits)
        _handshake(side, pair, now, flag)
        side.window_bytes = window if side.opening else segments.window_bytes[row]
        segments.marks[row] = bits


def _begin(side: Side, other: Side, seq: int, ack: int, flag: int) -> None:
    """The first sequence numbers of both sides; a repeated SYN starts over."""
    if (flag & (SYN | ACK)) == SYN and side.base_set and side.base == seq:
        side.next = side.highest
    if not side.base_set:
        side.base = seq if flag & SYN else (seq - 1) & SEQ
        side.base_set = 1
    if not other.base_set and flag & ACK:
        other.base = (ack - 1) & SEQ
        other.base_set = 1


def _window_marks(
    side: Side, other: Side, seq: int, ack: int, window: int, length: int, flag: int
) -> int:
    """Window, probes and duplicate ACKs, in the order in which one mark excludes another."""
    plain = not flag & EDGE
    if length == 1 and seq == side.next and other.window == 0:
        return ZERO_WINDOW_PROBE
    bits = 0
    if window == 0 and plain:
        bits |= ZERO_WINDOW
    if side.next and _after(seq, side.next) and not flag & RST:
        bits |= LOST_SEGMENT
    if length <= 1 and seq == (side.next - 1) & SEQ and plain:
        bits |= KEEP_ALIVE
    if (
        length > 0
        and plain
        and other.window_bytes >= 0
        and (seq + length) & SEQ == (other.last_ack + other.window_bytes) & SEQ
    ):
        bits |= WINDOW_FULL
    if length or not plain or seq != side.next or ack != side.last_ack:
        return bits
    if window and window != side.window:
        return bits | WINDOW_UPDATE
    if window == 0:
        if side.window == 0 and other.last_marks & ZERO_WINDOW_PROBE:
            bits |= ZERO_WINDOW_PROBE_ACK
        return bits
    if other.last_marks & KEEP_ALIVE:
        return bits | KEEP_ALIVE_ACK
    side.repeated = 1 if side.repeated == UNSEEN else side.repeated + 1
    return bits | DUPLICATE_ACK


def _lost_ack(other: Side, ack: int, flag: int) -> int:
    """Whether this acknowledges data that the capture lacks."""
    if not (other.highest and _after(ack, other.highest) and flag & ACK):
        return 0
    if _after(other.next, other.highest):
        other.highest = other.next
        return ACK_LOST_SEGMENT
    reported = other.repeated == 0
    other.repeated = UNSEEN
    return ACK_LOST_SEGMENT if reported else 0


def _sent_again(
    side: Side, other: Side, pair: Pair, now: int, seq: int, length: int, flag: int, bits: int
) -> int:
    """The kind of a segment whose data is not new."""
    if not (length > 0 or flag & (SYN | FIN)) or bits & KEEP_ALIVE:
        return 0
    end = (seq + length) & SEQ
    old = side.next != 0 and _after(side.next, seq)
    if length > 1 and (side.next - 1) & SEQ == seq:
        old = False
    if length > 0 and other.last_ack and not _after(end, other.last_ack):
        return SPURIOUS_RETRANSMISSION
    if not old:
        return 0
    if other.repeated >= 2 and other.last_ack == seq and _within(now - other.last_ack_ns, FAST_NS):
        return FAST_RETRANSMISSION
    near = NO_RTT_NS if pair.rtt_ns == 0 else pair.rtt_ns
    if flag & (SYN | FIN):
        end = (end + 1) & SEQ
    if _within(now - side.next_ns, near) and side.next != end:
        return OUT_OF_ORDER
    return RETRANSMISSION


def _remember(
    side: Side, now: int, seq: int, ack: int, window: int, length: int, flag: int, bits: int
) -> None:
    end = (seq + length) & SEQ
    if flag & (SYN | FIN):
        end = (end + 1) & SEQ
    if not bits & ZERO_WINDOW_PROBE:
        if _after(end, side.next) or side.next == 0:
            side.next, side.next_ns = end, now
        if seq == side.highest or side.highest == 0:
            side.highest = side.next
    side.window, side.last_ack, side.last_ack_ns, side.last_marks = window, ack, now, bits


def _handshake(side: Side, pair: Pair, now: int, flag: int) -> None:
    """Measure the handshake; windows are not scaled before a side's first ACK."""
    if flag & SYN:
        side.opening = 1
    elif flag & ACK:
        side.opening = 0
    if (flag & (SYN | ACK)) == SYN:
        pair.syn_ns = now
    elif (flag & (SYN | ACK)) == ACK and pair.syn_ns and not pair.rtt_ns:
        pair.rtt_ns = now - pair.syn_ns


def _after(seq: int, other: int) -> bool:
    """Whether a sequence number lies beyond another, modulo 2**32 (GT_SEQ)."""
    return (other - seq) & SEQ >= HALF


def _within(length_ns: int, limit_ns: int) -> bool:
    """`length_ns < limit_ns` as unsigned numbers: a negative time is very long."""
    if (length_ns < 0) == (limit_ns < 0):
        return length_ns < limit_ns
    return limit_ns < 0
