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

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy

from labs.read.capture.segment_table import ACK, FIN, RST, SYN, Table
from labs.read.native.compiled import Int8s, Int32s, Int64s, Uint16s, Uint32s, compiled, native

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

# The state of one side of a connection: a row of int64.
(
    NEXT,
    NEXT_NS,
    HIGHEST,
    LAST_ACK,
    LAST_ACK_NS,
    REPEATED,
    WINDOW,
    WINDOW_BYTES,
    BASE,
    BASE_SET,
    LAST_MARKS,
    OPENING,
) = range(12)
SIDE_FIELDS: Final = 12
# ... and of both: the time of the last SYN, and the duration of the handshake.
SYN_NS, RTT_NS = range(2)
PAIR_FIELDS: Final = 2


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
        self._sides = numpy.zeros((0, SIDE_FIELDS), dtype=numpy.int64)
        self._pairs = numpy.zeros((0, 2), dtype=numpy.int64)

    def marks(self, segments: DataFrame) -> DataFrame:
        """The marks of the next segments; connections keep their numbers from batch to batch."""
        return named_marks(self.bits(segments), segments.index)

    def bits(self, segments: Table) -> Array:
        """The same as one number per row, a sum of the constants of this module."""
        marks = numpy.zeros(len(segments), dtype=numpy.uint16)
        if not len(segments):
            return marks
        self._grow(int(numpy.max(segments["connection"])) + 1)
        columns = [numpy.ascontiguousarray(segments[name]) for name in COLUMNS]
        _pass(*[*columns, self._sides.reshape(-1), self._pairs.reshape(-1), marks])
        return marks

    def _grow(self, connections: int) -> None:
        new = connections - len(self._pairs)
        if new > 0:
            sides = numpy.zeros((2 * new, SIDE_FIELDS), dtype=numpy.int64)
            sides[:, WINDOW], sides[:, WINDOW_BYTES] = NO_WINDOW, -1
            self._sides = numpy.concatenate([self._sides, sides])
            self._pairs = numpy.concatenate([self._pairs, numpy.zeros((new, 2), dtype=numpy.int64)])


@native
def _pass(
    time_ns: Int64s,
    connection: Int32s,
    direction: Int8s,
    seqs: Uint32s,
    acks: Uint32s,
    flags: Uint16s,
    windows: Uint16s,
    windows_bytes: Int32s,
    lengths: Int32s,
    sides: Int64s,
    pairs: Int64s,
    marks: Uint16s,
) -> None:
    for row in range(len(seqs)):
        here = 2 * connection[row] + direction[row]
        there = 2 * connection[row] + 1 - direction[row]
        pair = pairs[PAIR_FIELDS * connection[row] : PAIR_FIELDS * (connection[row] + 1)]
        side = sides[SIDE_FIELDS * here : SIDE_FIELDS * (here + 1)]
        other = sides[SIDE_FIELDS * there : SIDE_FIELDS * (there + 1)]
        now, flag, length = int(time_ns[row]), int(flags[row]), int(lengths[row])
        seq, ack, window = int(seqs[row]), int(acks[row]), int(windows[row])
        _begin(side, other, seq, ack, flag)
        bits = _window_marks(side, other, seq, ack, window, length, flag)
        if ack != side[LAST_ACK]:
            side[REPEATED] = 0
        bits |= _lost_ack(other, ack, flag)
        bits |= _sent_again(side, other, pair, now, seq, length, flag, bits)
        _remember(side, now, seq, ack, window, length, flag, bits)
        _handshake(side, pair, now, flag)
        side[WINDOW_BYTES] = window if side[OPENING] else windows_bytes[row]
        marks[row] = bits


@compiled
def _begin(side: Int64s, other: Int64s, seq: int, ack: int, flag: int) -> None:
    """The first sequence numbers of both sides; a repeated SYN starts over."""
    if (flag & (SYN | ACK)) == SYN and side[BASE_SET] and side[BASE] == seq:
        side[NEXT] = side[HIGHEST]
    if not side[BASE_SET]:
        side[BASE] = seq if flag & SYN else (seq - 1) & SEQ
        side[BASE_SET] = 1
    if not other[BASE_SET] and flag & ACK:
        other[BASE] = (ack - 1) & SEQ
        other[BASE_SET] = 1


@compiled
def _window_marks(
    side: Int64s, other: Int64s, seq: int, ack: int, window: int, length: int, flag: int
) -> int:
    """Window, probes and duplicate ACKs, in the order in which one mark excludes another."""
    plain = not flag & EDGE
    if length == 1 and seq == side[NEXT] and other[WINDOW] == 0:
        return ZERO_WINDOW_PROBE
    bits = 0
    if window == 0 and plain:
        bits |= ZERO_WINDOW
    if side[NEXT] and _after(seq, side[NEXT]) and not flag & RST:
        bits |= LOST_SEGMENT
    if length <= 1 and seq == (side[NEXT] - 1) & SEQ and plain:
        bits |= KEEP_ALIVE
    if (
        length > 0
        and plain
        and other[WINDOW_BYTES] >= 0
        and (seq + length) & SEQ == (other[LAST_ACK] + other[WINDOW_BYTES]) & SEQ
    ):
        bits |= WINDOW_FULL
    if length or not plain or seq != side[NEXT] or ack != side[LAST_ACK]:
        return bits
    if window and window != side[WINDOW]:
        return bits | WINDOW_UPDATE
    if window == 0:
        if side[WINDOW] == 0 and other[LAST_MARKS] & ZERO_WINDOW_PROBE:
            bits |= ZERO_WINDOW_PROBE_ACK
        return bits
    if other[LAST_MARKS] & KEEP_ALIVE:
        return bits | KEEP_ALIVE_ACK
    side[REPEATED] = 1 if side[REPEATED] == UNSEEN else side[REPEATED] + 1
    return bits | DUPLICATE_ACK


@compiled
def _lost_ack(other: Int64s, ack: int, flag: int) -> int:
    """Whether this acknowledges data that the capture lacks."""
    if not (other[HIGHEST] and _after(ack, other[HIGHEST]) and flag & ACK):
        return 0
    if _after(other[NEXT], other[HIGHEST]):
        other[HIGHEST] = other[NEXT]
        return ACK_LOST_SEGMENT
    reported = other[REPEATED] == 0
    other[REPEATED] = UNSEEN
    return ACK_LOST_SEGMENT if reported else 0


@compiled
def _sent_again(
    side: Int64s, other: Int64s, pair: Int64s, now: int, seq: int, length: int, flag: int, bits: int
) -> int:
    """The kind of a segment whose data is not new."""
    if not (length > 0 or flag & (SYN | FIN)) or bits & KEEP_ALIVE:
        return 0
    end = (seq + length) & SEQ
    old = side[NEXT] != 0 and _after(side[NEXT], seq)
    if length > 1 and (side[NEXT] - 1) & SEQ == seq:
        old = False
    if length > 0 and other[LAST_ACK] and not _after(end, other[LAST_ACK]):
        return SPURIOUS_RETRANSMISSION
    if not old:
        return 0
    if (
        other[REPEATED] >= 2
        and other[LAST_ACK] == seq
        and _within(now - other[LAST_ACK_NS], FAST_NS)
    ):
        return FAST_RETRANSMISSION
    near = NO_RTT_NS if pair[RTT_NS] == 0 else pair[RTT_NS]
    if flag & (SYN | FIN):
        end = (end + 1) & SEQ
    if _within(now - side[NEXT_NS], near) and side[NEXT] != end:
        return OUT_OF_ORDER
    return RETRANSMISSION


@compiled
def _remember(
    side: Int64s, now: int, seq: int, ack: int, window: int, length: int, flag: int, bits: int
) -> None:
    end = (seq + length) & SEQ
    if flag & (SYN | FIN):
        end = (end + 1) & SEQ
    if not bits & ZERO_WINDOW_PROBE:
        if _after(end, side[NEXT]) or side[NEXT] == 0:
            side[NEXT], side[NEXT_NS] = end, now
        if seq == side[HIGHEST] or side[HIGHEST] == 0:
            side[HIGHEST] = side[NEXT]
    side[WINDOW], side[LAST_ACK], side[LAST_ACK_NS], side[LAST_MARKS] = window, ack, now, bits


@compiled
def _handshake(side: Int64s, pair: Int64s, now: int, flag: int) -> None:
    """Measure the handshake; windows are not scaled before a side's first ACK."""
    if flag & SYN:
        side[OPENING] = 1
    elif flag & ACK:
        side[OPENING] = 0
    if (flag & (SYN | ACK)) == SYN:
        pair[SYN_NS] = now
    elif (flag & (SYN | ACK)) == ACK and pair[SYN_NS] and not pair[RTT_NS]:
        pair[RTT_NS] = now - pair[SYN_NS]


@compiled
def _after(seq: int, other: int) -> bool:
    """Whether a sequence number lies beyond another, modulo 2**32 (GT_SEQ)."""
    return (other - seq) & SEQ >= HALF


@compiled
def _within(length_ns: int, limit_ns: int) -> bool:
    """`length_ns < limit_ns` as unsigned numbers: a negative time is very long."""
    if (length_ns < 0) == (limit_ns < 0):
        return length_ns < limit_ns
    return limit_ns < 0
