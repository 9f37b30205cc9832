"""Packets missing from a capture, found by sequence numbers and by IP identification.

A hole in a side's sequence numbers that a later segment fills is a loss upstream of the capture
point, not a hole in the capture. Linux counts the packets of a connection in their identification.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

import numpy

from labs.read.capture import tcp_marks as bits
from labs.read.capture.segment_table import FIN, SYN
from labs.read.flows.connection_state import Array, ConnectionState, Elements

MOST_LOST: Final = 64
"""Between two packets that both were captured."""
MISSING: Final = bits.LOST_SEGMENT | bits.ACK_LOST_SEGMENT


def holes(
    known: ConnectionState, first: int, last: int, sides: tuple[Array, ...]
) -> tuple[Array, int]:
    """For each segment whether packets that the capture lacks may have ended the gap before it.

    A hole in a side's sequence numbers that a later segment fills is a loss upstream of the capture
    point, not a hole in the capture. The second value is the number of holes.
    """
    found, count = numpy.zeros(last - first, dtype=bool), 0
    marked = (numpy.flatnonzero(known.marks[first:last] & MISSING) + first).tolist()
    if not marked:
        return found, count
    # Only data, or a FIN, that begins below the highest number sent can fill a hole below it.
    carries = (known.length[first:last] > 0) | ((known.flags[first:last] & FIN) != 0)
    repeats = [
        own[carries[own - first] & (known.begin[own] < known.sent[side][own])]
        for side, own in enumerate(sides)
    ]
    repeats = [own[numpy.argsort(known.begin[own], kind="stable")] for own in repeats]
    begins = [known.begin[own].data for own in repeats]
    longest = [int((known.end[own] - known.begin[own]).max(initial=0)) for own in repeats]
    each = known.each
    for at in marked:
        by = each.direction[at]
        if each.marks[at] & bits.ACK_LOST_SEGMENT:
            side = 1 - by
        else:
            side = by
            begin = each.sent[side][at]
            low = bisect_left(begins[side], begin - longest[side])
            high = bisect_right(begins[side], begin)
            those = repeats[side][low:high].tolist()
            if any(place >= at and each.end[place] > begin for place in those):
                continue
        own = sides[side]
        before = bisect_left(own.data, at) - 1
        since = int(own[before]) if before >= 0 else first
        found[since + 1 - first : at + 1 - first] = True
        count += 1
    return found, count


def skipped_packets(each: Elements, before: int, at: int) -> int:
    """How many packets of a side are missing between two of its segments that follow each other,
    by their identification: Linux counts up for each packet of a connection."""
    packets = max(1, -(-each.length[before] // each.mss_bytes[before]))
    return (each.ip_id[at] - each.ip_id[before] - packets) & 0xFFFF


def counts_ids(known: ConnectionState, places: Array) -> bool:
    """Whether a side counts its packets in their identification: at least half of the numbers
    follow the previous one directly, and at least 90 % skip fewer than MOST_LOST packets."""
    plain = places[(known.flags[places] & SYN) == 0]
    if len(plain) < 3 or known.ip_id[plain[0]] < 0:
        return False
    packets = numpy.maximum(1, -(-known.length[plain] // known.mss_bytes[plain]))[:-1]
    steps = (numpy.diff(known.ip_id[plain]) - packets) & 0xFFFF
    return bool((steps == 0).mean() >= 0.5 and (steps < MOST_LOST).mean() >= 0.9)
