"""Why nothing was sent: the silences of connections, who waited for whom, and for what.

All of it is read from the segments of a capture. Where the capture was taken matters: beside the
sender, a timer's silence ends with a segment that is sent again; beside the receiver, the same
silence is seen whole only if later segments had arrived.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy

from labs.analysis.explained import (
    APPLICATION,
    CLOSED_WINDOW,
    DELAYED_ACK,
    FAST_RETRANSMISSION,
    FULL_WINDOW,
    IDLE,
    NAGLE,
    NAGLE_AND_DELAYED_ACK,
    RETRANSMISSION_TIMER,
    ROUND_TRIP,
    UNEXPLAINED,
)
from labs.analysis.sides import FIN, RST, SYN, Sides, sides
from labs.capture import marks as bits
from labs.capture.memory import IN_PARTS, must_fit

if TYPE_CHECKING:
    from pandas import DataFrame

QUIET_MS = 20.0
"""Half the shortest delay of an ACK."""
SOON_NS = 5_000_000
SHORTEST_DELAY_NS = 30_000_000
LONGEST_DELAY_NS = 260_000_000
"""A delayed ACK is due after 40 to 200 ms (TCP_ATO_MIN, TCP_DELACK_MAX), within a tick or two."""
ROUND_TRIPS = 3
SILENCE_BYTES = 700
"""What a row of `stalls` takes while the table is made; measured."""
NOBODY = "nobody"
NAMES = ("client", "server")
NEVER_AGAIN = bits.KEEP_ALIVE | bits.ZERO_WINDOW_PROBE
ANSWERED = bits.KEEP_ALIVE_ACK | bits.ZERO_WINDOW_PROBE_ACK


@dataclass(frozen=True)
class Wait:
    """Why nothing was sent before a segment: a name of `explained`, and who waited for whom.

    `waiting` and `waited_for` are "client" (who opened the connection), "server" or "nobody".
    """

    reason: str
    waiting: str
    waited_for: str


def stalls(segments: DataFrame, *, quiet_ms: float = QUIET_MS) -> DataFrame:
    """Every silence of a table of segments (`labs.capture.read`), in the order of time: a row each.

    Columns: `connection`, `at_ns` (of the last segment before it), `silence_ms`, `before` and
    `after` (the labels of the rows around it), `ended_by`, `reason`, `waiting`, `waited_for`.
    A silence is longer by `quiet_ms` than it takes to hear from the side that ends it (see
    `labs.analysis.sides`). What is small for Nagle's algorithm is so by the MSS of the connection.
    """
    from pandas import DataFrame

    known = sides(segments)
    gaps = known.gaps_ns()
    places = numpy.flatnonzero(gaps >= quiet_ms * 1e6)
    must_fit(len(places) * SILENCE_BYTES, f"{len(places):,} silences", IN_PARTS)
    rows = []
    for at in places.tolist():
        if not is_silent(known, at, quiet_ms * 1e6):
            continue
        wait = why(known, at)
        rows.append((
            int(known.connection[at]), int(known.time_ns[at - 1]), gaps[at] / 1e6,
            known.rows[at - 1], known.rows[at], NAMES[known.direction[at]], wait.reason,
            wait.waiting, wait.waited_for))
    found = DataFrame(rows, columns=["connection", "at_ns", "silence_ms", "before", "after",
                                     "ended_by", "reason", "waiting", "waited_for"])
    return found.sort_values("at_ns", kind="stable", ignore_index=True)


def is_silent(known: Sides, at: int, quiet_ns: float) -> bool:
    """Whether the gap before the segment at that place is longer, by so much, than it takes to
    hear from the side that ends it."""
    gap = known.time_ns[at] - known.time_ns[at - 1]
    return bool(gap >= known.far_ns[known.direction[at]][at] + quiet_ns)


def why(known: Sides, at: int) -> Wait:
    """What the silence before the segment at that place of `known` was for."""
    by, other = int(known.direction[at]), 1 - int(known.direction[at])
    flags, marked = int(known.flags[at]), int(known.marks[at])
    if marked & (bits.RETRANSMISSION | bits.SPURIOUS_RETRANSMISSION):
        return Wait(RETRANSMISSION_TIMER, NAMES[other], NAMES[by])
    if marked & (bits.FAST_RETRANSMISSION | bits.OUT_OF_ORDER):
        return Wait(FAST_RETRANSMISSION, NAMES[other], NAMES[by])
    if marked & (NEVER_AGAIN | ANSWERED):
        return _probed(known, at, by if marked & NEVER_AGAIN else other)
    if flags & RST or (flags & FIN and not known.length[at]):
        return Wait(IDLE, NOBODY, NOBODY)
    if flags & SYN or known.flags[at - 1] & SYN:
        return _distance(known, at, ROUND_TRIP)
    if known.length[at]:
        return _data(known, at, by)
    return _acknowledged(known, at, other)


def _probed(known: Sides, at: int, sender: int) -> Wait:
    """A probe, or its answer: of a window that is shut, or of a connection that idles."""
    if _room(known, at, sender) <= 0 and known.edge[sender][at] >= 0:
        return Wait(CLOSED_WINDOW, NAMES[sender], NAMES[1 - sender])
    return Wait(IDLE, NOBODY, NOBODY)


def _data(known: Sides, at: int, by: int) -> Wait:
    """New data ends the silence: its sender was free to send before, or it came from far away."""
    gap = int(known.time_ns[at] - known.time_ns[at - 1])
    far = int(known.far_ns[by][at])
    if far > SOON_NS and known.direction[at - 1] != by and gap <= far + far // 2:
        return Wait(ROUND_TRIP, NAMES[1 - by], NAMES[by])
    return Wait(APPLICATION, NAMES[1 - by], NAMES[by])


def _acknowledged(known: Sides, at: int, sender: int) -> Wait:
    """An acknowledgment ends the silence: what `sender` does then tells what it waited for."""
    receiver = 1 - sender
    room = _room(known, at, sender)
    after = _next_data(known, at, sender)
    if known.edge[sender][at] >= 0 and room <= 0 and known.window[receiver][at] == 0:
        return Wait(CLOSED_WINDOW, NAMES[sender], NAMES[receiver])
    if after is None:
        if known.ack[at] > known.acked[sender][at]:
            return _distance(known, at, DELAYED_ACK)
        return Wait(IDLE, NOBODY, NOBODY)
    held, full = int(known.length[after]), int(known.mss_bytes[at])
    if known.edge[sender][at] >= 0 and room < min(held, full):
        return Wait(FULL_WINDOW, NAMES[sender], NAMES[receiver])
    # tcp_minshall_check: a small one was under way, and this acknowledges it.
    if held < full and known.acked[sender][at] < known.small[sender][at] <= known.ack[at]:
        return _distance(known, at, NAGLE_AND_DELAYED_ACK)
    return _distance(known, at, ROUND_TRIP)


def _distance(known: Sides, at: int, reason: str) -> Wait:
    """The reason, unless the time does not fit it: a round trip is shorter than a delayed ACK."""
    gap = int(known.time_ns[at] - known.time_ns[at - 1])
    rtt = int(known.rtt_ns[at])
    receiver = int(known.direction[at])
    waits = (NOBODY, NOBODY) if reason == DELAYED_ACK else (NAMES[1 - receiver], NAMES[receiver])
    if reason in (NAGLE_AND_DELAYED_ACK, DELAYED_ACK):
        if SHORTEST_DELAY_NS <= gap - int(known.far_ns[receiver][at]) <= LONGEST_DELAY_NS:
            return Wait(reason, *waits)
        reason = NAGLE if reason == NAGLE_AND_DELAYED_ACK else ROUND_TRIP
    near = gap <= max(ROUND_TRIPS * rtt, SOON_NS)
    return Wait(reason if near else UNEXPLAINED, *waits)


def _room(known: Sides, at: int, sender: int) -> int:
    """What the sender might still send before the segment at that place."""
    return int(known.edge[sender][at] - known.sent[sender][at])


def _next_data(known: Sides, at: int, sender: int) -> int | None:
    """The new data that the sender sends next, if it comes at once or a round trip later."""
    soon = int(known.time_ns[at]) + int(known.rtt_ns[at]) + SOON_NS
    place = known.next_carrying(at)
    if place is None or known.time_ns[place] > soon or known.direction[place] != sender:
        return None
    return place if known.end[place] > known.sent[sender][at] else None
