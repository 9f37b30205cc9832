"""Which ACK is the first of each segment with new data: one pass over whole connections."""

from __future__ import annotations

from typing import Final

from labs.read.capture.segment_table import ACK, FIN, SYN
from labs.read.native.compiled import Int8s, Int64s, Uint16s, compiled, native

NOT_ONCE: Final = -2
"""Of what is no data, not new, or (in part) retransmitted later; -1 is data without an ACK."""
NOTHING: Final = -(1 << 62)


@native
def find_first_acks(
    starts: Int64s,
    direction: Int8s,
    flags: Uint16s,
    length: Int64s,
    begin: Int64s,
    end: Int64s,
    ack: Int64s,
    sent_0: Int64s,
    sent_1: Int64s,
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
                if direction[at] == side and length[at] > 0 and flags[at] & (SYN | FIN) == 0:
                    sent = sent_1[at] if side else sent_0[at]
                    if begin[at] >= sent:
                        fresh[first + count] = at
                        covers[first + count] = 0
                        count += 1
            covers[first + count] = 0
            for at in range(first, last):
                if direction[at] == side and length[at] > 0:
                    sent = sent_1[at] if side else sent_0[at]
                    if begin[at] < sent:
                        _cover(begin[at], end[at], first, count, fresh, begin, end, covers)
            again, place, reach = 0, first, NOTHING
            for which in range(first, first + count):
                at = fresh[which]
                again += covers[which]
                if again:
                    continue
                while place < last and reach < end[at]:
                    if direction[place] != side and flags[place] & ACK:
                        reach = max(reach, ack[place])
                    if reach < end[at]:
                        place += 1
                # An ACK that precedes its segment in the file was captured out of order.
                acked_by[at] = place if at < place and place < last else -1


@compiled
def _cover(
    begin_again: int,
    end_again: int,
    first: int,
    count: int,
    fresh: Int64s,
    begin: Int64s,
    end: Int64s,
    covers: Int64s,
) -> None:
    """Count a retransmission at the new segments that it overlaps: they are a contiguous part of
    those, because new data is in order and does not overlap."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if end[fresh[first + middle]] <= begin_again:
            low = middle + 1
        else:
            high = middle
    since = low
    high = count
    while low < high:
        middle = (low + high) // 2
        if begin[fresh[first + middle]] < end_again:
            low = middle + 1
        else:
            high = middle
    covers[first + since] += 1
    covers[first + low] -= 1
