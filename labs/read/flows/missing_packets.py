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
from labs.read.flows.connection_state import Array, Column, Columns, ConnectionState

MOST_LOST: Final = 64
"""Between two packets that both were captured."""
MISSING: Final = bits.LOST_SEGMENT | bits.ACK_LOST_SEGMENT


def holes(
    state: ConnectionState, first: int, last: int, sides: tuple[Array, ...]
) -> tuple[Array, int]:
    """For each segment whether packets that the capture lacks may have ended the gap before it.

    A hole in a side's sequence numbers that a later segment fills is a loss upstream of the capture
    point, not a hole in the capture. The second value is the number of holes.
    """
    beside_hole, count = numpy.zeros(last - first, dtype=bool), 0
    marked = (numpy.flatnonzero(state.marks[first:last] & MISSING) + first).tolist()
    if not marked:
        return beside_hole, count
    # Only data, or a FIN, that begins below the highest number sent can fill a hole below it.
    carries = (state.length[first:last] > 0) | ((state.flags[first:last] & FIN) != 0)
    repeats = [
        places[carries[places - first] & (state.begin[places] < state.sent[side][places])]
        for side, places in enumerate(sides)
    ]
    repeats = [places[numpy.argsort(state.begin[places], kind="stable")] for places in repeats]
    begins = [state.begin[places].data for places in repeats]
    longest = [int((state.end[places] - state.begin[places]).max(initial=0)) for places in repeats]
    each = state.each
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
        places = sides[side]
        before = bisect_left(places.data, at) - 1
        since = int(places[before]) if before >= 0 else first
        beside_hole[since + 1 - first : at + 1 - first] = True
        count += 1
    return beside_hole, count


def skipped_packets(each: Columns[Column], before: int, at: int) -> int:
    """How many packets of a side are missing between two of its segments that follow each other,
    by their identification: Linux counts up for each packet of a connection."""
    packets = max(1, -(-each.length[before] // each.mss_bytes[before]))
    return (each.ip_id[at] - each.ip_id[before] - packets) & 0xFFFF


def counts_ids(state: ConnectionState, places: Array) -> bool:
    """Whether a side counts its packets in their identification: at least half of the numbers
    follow the previous one directly, and at least 90 % skip fewer than MOST_LOST packets."""
    plain = places[(state.flags[places] & SYN) == 0]
    if len(plain) < 3 or state.ip_id[plain[0]] < 0:
        return False
    packets = numpy.maximum(1, -(-state.length[plain] // state.mss_bytes[plain]))[:-1]
    steps = (numpy.diff(state.ip_id[plain]) - packets) & 0xFFFF
    return bool((steps == 0).mean() >= 0.5 and (steps < MOST_LOST).mean() >= 0.9)
