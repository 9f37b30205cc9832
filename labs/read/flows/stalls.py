"""Stalls: the gaps of connections in which nothing was sent, who waited for whom, and for what.

Each reason is explained in words, with its source in the kernel (`explained`). Gaps that a round
trip explains are not stalls; labs/read/flows/round_trips.py finds them.

Only the segments of a capture are used. The place of the capture matters: at the sender, a gap that
a timer ended is followed by a retransmission; at the receiver, the whole gap is visible only if
later segments arrived.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy
from pandas import DataFrame

from labs.read.capture import tcp_marks as bits
from labs.read.capture.segment_table import FIN, IN_PARTS, RST, SYN, must_fit
from labs.read.flows.connection_state import ConnectionState, connection_state
from labs.read.flows.rtt import NEXT_DOOR, Distance, Distances, distances

MIN_GAP_MS = 20.0
"""Half the shortest delay of an ACK."""
SOON_NS = 5_000_000
SHORTEST_DELAY_NS = 30_000_000
LONGEST_DELAY_NS = 260_000_000
"""An ACK is delayed by 40 to 200 ms (TCP_ATO_MIN, TCP_DELACK_MAX), and one or two ticks more."""
ROUND_TRIPS = 3
STALL_BYTES = 700
"""Memory per row while `stalls` makes the table; measured."""
NOBODY = "nobody"
NAMES = ("client", "server")
PROBED = bits.KEEP_ALIVE | bits.ZERO_WINDOW_PROBE
ANSWERED = bits.KEEP_ALIVE_ACK | bits.ZERO_WINDOW_PROBE_ACK

# The reasons.
NAGLE_AND_DELAYED_ACK: Final = "delayed ACK meets Nagle"
NAGLE: Final = "Nagle waits a round trip"
DELAYED_ACK: Final = "delayed ACK"
CLOSED_WINDOW: Final = "closed window"
FULL_WINDOW: Final = "full window"
RETRANSMISSION_TIMER: Final = "retransmission timer"
FAST_RETRANSMISSION: Final = "fast retransmission"
ROUND_TRIP: Final = "round trip"
APPLICATION: Final = "application"
IDLE: Final = "nothing to send"
UNEXPLAINED: Final = "unexplained"
RTT_UNKNOWN: Final = "RTT unknown"


@dataclass(frozen=True)
class Wait:
    """Why nothing was sent before a segment: a reason of `explained`, and who waited for whom.

    `waiting` and `waited_for` are "client", "server" or "nobody".
    """

    reason: str
    waiting: str
    waited_for: str


@dataclass(frozen=True)
class Explanation:
    """`words` describe the reason; `source` names functions of Linux and the RFCs of the rule."""

    words: str
    source: str


EXPLANATIONS: Final = {
    NAGLE_AND_DELAYED_ACK: Explanation(
        "The sender holds back a small segment because an earlier small one is unacknowledged. The "
        "receiver has received neither more than one full-sized segment nor a second small one. It "
        "has nothing to send, so it delays that ACK until its timer expires, after at least 40 ms "
        "(TCP_ATO_MIN, HZ/25).",
        "tcp_nagle_check and tcp_minshall_check (net/ipv4/tcp_output.c); __tcp_ack_snd_check "
        "(net/ipv4/tcp_input.c); tcp_send_delayed_ack (net/ipv4/tcp_output.c); TCP_ATO_MIN "
        "(include/net/tcp.h); RFC 896, RFC 1122 4.2.3.2 and 4.2.3.4, RFC 5681 4.2",
    ),
    NAGLE: Explanation(
        "The sender holds back a small segment until an earlier small one is acknowledged. The "
        "receiver acknowledges at once, so this takes one round trip.",
        "tcp_nagle_check and tcp_minshall_check (net/ipv4/tcp_output.c); RFC 896, RFC 1122 4.2.3.4",
    ),
    DELAYED_ACK: Explanation(
        "The receiver has received neither more than one full-sized segment nor a second small "
        "one. It delays the ACK until its timer expires. If nobody waits for that ACK, nothing is "
        "lost.",
        "__tcp_ack_snd_check (net/ipv4/tcp_input.c); tcp_send_delayed_ack "
        "(net/ipv4/tcp_output.c); RFC 1122 4.2.3.2, RFC 5681 4.2",
    ),
    CLOSED_WINDOW: Explanation(
        "The receiver's window is zero because its program does not read. The sender probes it at "
        "growing intervals until it opens.",
        "tcp_snd_wnd_test and tcp_send_probe0 (net/ipv4/tcp_output.c); tcp_probe_timer "
        "(net/ipv4/tcp_timer.c); __tcp_select_window (net/ipv4/tcp_output.c); RFC 9293 3.8.6",
    ),
    FULL_WINDOW: Explanation(
        "The sender has sent all that the receiver's window permits and waits for an ACK that "
        "advances the window.",
        "tcp_snd_wnd_test (net/ipv4/tcp_output.c); RFC 9293 3.8.6",
    ),
    RETRANSMISSION_TIMER: Explanation(
        "A segment or its ACK was lost, and no later segment revealed it. The sender's timer "
        "expires (RTO or tail loss probe) and it retransmits.",
        "tcp_retransmit_timer (net/ipv4/tcp_timer.c); tcp_send_loss_probe "
        "(net/ipv4/tcp_output.c); RFC 6298, RFC 8985 7",
    ),
    FAST_RETRANSMISSION: Explanation(
        "A segment was lost or reordered. Later segments arrived, and their ACKs made the sender "
        "retransmit it.",
        "tcp_fastretrans_alert and tcp_rack_mark_lost (net/ipv4/tcp_input.c, tcp_recovery.c); "
        "RFC 5681 3.2, RFC 8985",
    ),
    ROUND_TRIP: Explanation(
        "The segments or their acknowledgement are still in flight: the gap is the delay of the "
        "path.",
        "tcp_cwnd_test (net/ipv4/tcp_output.c), if the sender waits for its congestion window",
    ),
    APPLICATION: Explanation(
        "TCP held nothing back: the program that sends next had not written its data before.",
        "tcp_sendmsg_locked (net/ipv4/tcp.c)",
    ),
    IDLE: Explanation(
        "Neither side had anything to send; a keep-alive or the end of the connection ends the "
        "gap.",
        "tcp_keepalive_timer (net/ipv4/tcp_timer.c); RFC 9293 3.8.4",
    ),
    UNEXPLAINED: Explanation(
        "The capture does not show the reason: the gap is longer than a round trip, fits no timer, "
        "and no segment is marked.",
        "none",
    ),
    RTT_UNKNOWN: Explanation(
        "The capture lacks the handshake of the connection, so its RTT is unknown, and the reason "
        "depends on it. Start the capture before the connection.",
        "none",
    ),
}


def explained(reason: str) -> Explanation:
    """The meaning of a reason of `stalls` or `exchanges`, and its place in the kernel."""
    return EXPLANATIONS[reason]


@dataclass(frozen=True, eq=False)
class Stalls:
    """The stalls of a table of segments, and the gaps that could not be decided."""

    table: DataFrame  # as `stalls` returns it
    rtt_unknown: int  # connections without a complete handshake in the capture
    undecided: int  # their gaps above the minimum that a round trip may explain
    longest_undecided_ms: float
    acks_of_missing: int  # ACKs of bytes that the capture lacks


def stalls(segments: DataFrame, *, min_gap_ms: float = MIN_GAP_MS) -> DataFrame:
    """The stalls of a table of segments (`labs.capture.read`), one row each, ordered by time.

    Columns: `connection`, `at_ns` (of the last segment before it), `gap_ms`, `before` and `after`
    (the labels of the rows around it), `ended_by`, `reason`, `waiting`, `waited_for`, `rtt_ms`
    (of the handshake; NaN if the capture lacks it and the RTT is unknown).
    A stall is a gap that exceeds, by `min_gap_ms`, the time that the end which ends it takes to
    answer (see `labs.read.flows.rtt`). A segment is small for Nagle's algorithm if it is smaller
    than the MSS of the connection. If the RTT is unknown, a stall is longer than any possible RTT,
    or ended by a segment that only a timer sends; its reason is given if it is the same for every
    possible RTT.
    """
    return find_stalls(connection_state(segments), min_gap_ms=min_gap_ms).table


def find_stalls(known: ConnectionState, *, min_gap_ms: float = MIN_GAP_MS) -> Stalls:
    """The same, with the number of connections of unknown RTT and of undecided gaps."""
    far = distances(known)
    gaps = known.gaps_ns()
    places = numpy.flatnonzero(gaps >= min_gap_ms * 1e6)
    must_fit(len(places) * STALL_BYTES, f"{len(places):,} stalls", IN_PARTS)
    rows, undecided = [], []
    for at in places.tolist():
        if not is_stalled(known, far, at, min_gap_ms * 1e6):
            if not far.measured[at]:
                undecided.append(gaps[at] / 1e6)
            continue
        wait = why(known, far, at)
        rows.append(
            (
                int(known.connection[at]),
                int(known.time_ns[at - 1]),
                gaps[at] / 1e6,
                known.rows[at - 1],
                known.rows[at],
                NAMES[known.direction[at]],
                wait.reason,
                wait.waiting,
                wait.waited_for,
                float(far.rtt_ns[at]) / 1e6 if far.measured[at] else float("nan"),
            )
        )
    found = DataFrame(
        rows,
        columns=[
            "connection",
            "at_ns",
            "gap_ms",
            "before",
            "after",
            "ended_by",
            "reason",
            "waiting",
            "waited_for",
            "rtt_ms",
        ],
    )
    return Stalls(
        found.sort_values("at_ns", kind="stable", ignore_index=True),
        int((~far.measured[known.starts[:-1]]).sum()),
        len(undecided),
        max(undecided, default=0.0),
        int(((known.marks & bits.ACK_LOST_SEGMENT) != 0).sum()),
    )


def is_stalled(known: ConnectionState, far: Distances, at: int, min_gap_ns: float) -> bool:
    """Whether the gap before the segment at that place exceeds, by `min_gap_ns`, the time that its
    sender takes to answer; if the RTT is unknown, only if that is certain."""
    gap = known.time_ns[at] - known.time_ns[at - 1]
    if not far.measured[at] and _by_timer(known, at):
        return bool(gap >= min_gap_ns)
    return bool(gap >= far.far_ns[known.direction[at]][at] + min_gap_ns)


def _by_timer(known: ConnectionState, at: int) -> bool:
    """Whether only a timer sends the segment at that place: a probe, or a repeated SYN."""
    marked = int(known.marks[at])
    return bool(marked & PROBED or (marked & bits.RETRANSMISSION and known.flags[at] & SYN))


def why(known: ConnectionState, far: Distances, at: int) -> Wait:
    """The reason for the gap before the segment at that place of `known`.

    If the RTT is unknown, both ends of its range must give the same reason; else it is RTT_UNKNOWN.
    """
    most = far.most(at)
    wait = _why(known, most, at)
    if far.measured[at]:
        return wait
    if _perhaps_overtaken(known, most, at) or wait != _why(known, NEXT_DOOR, at):
        return Wait(RTT_UNKNOWN, NOBODY, NOBODY)
    return wait


def _perhaps_overtaken(known: ConnectionState, most: Distance, at: int) -> bool:
    """Whether a segment that is marked as a retransmission would be marked as out of order if its
    RTT were known (see `labs.read.capture.tcp_marks`): it follows within an RTT."""
    if not known.marks[at] & bits.RETRANSMISSION or _by_timer(known, at):
        return False
    return int(known.time_ns[at] - known.time_ns[at - 1]) < most.rtt_ns


def _why(known: ConnectionState, far: Distance, at: int) -> Wait:
    """The same for a known RTT."""
    by, other = int(known.direction[at]), 1 - int(known.direction[at])
    flags, marked = int(known.flags[at]), int(known.marks[at])
    if marked & (bits.RETRANSMISSION | bits.SPURIOUS_RETRANSMISSION):
        return Wait(RETRANSMISSION_TIMER, NAMES[other], NAMES[by])
    if marked & (bits.FAST_RETRANSMISSION | bits.OUT_OF_ORDER):
        return Wait(FAST_RETRANSMISSION, NAMES[other], NAMES[by])
    if marked & (PROBED | ANSWERED):
        return _probed(known, at, by if marked & PROBED else other)
    if flags & RST or (flags & FIN and not known.length[at]):
        return Wait(IDLE, NOBODY, NOBODY)
    if flags & SYN or known.flags[at - 1] & SYN:
        return _distance(known, far, at, ROUND_TRIP)
    if known.length[at]:
        return _data(known, far, at, by)
    return _acknowledged(known, far, at, other)


def _probed(known: ConnectionState, at: int, sender: int) -> Wait:
    """A probe or its answer: of a closed window, or of an idle connection."""
    closed = _room(known, at, sender) <= 0
    if known.edge[sender][at] < 0:  # a window of unknown scale: only 0 is certain
        closed = known.shut[1 - sender][at] == 1
    if closed:
        return Wait(CLOSED_WINDOW, NAMES[sender], NAMES[1 - sender])
    return Wait(IDLE, NOBODY, NOBODY)


def _data(known: ConnectionState, distance: Distance, at: int, by: int) -> Wait:
    """New data ends the gap: its sender could have sent earlier, or the data is from far away."""
    gap = int(known.time_ns[at] - known.time_ns[at - 1])
    far = distance.far_ns[by]
    if far > SOON_NS and known.direction[at - 1] != by and gap <= far + far // 2:
        return Wait(ROUND_TRIP, NAMES[1 - by], NAMES[by])
    return Wait(APPLICATION, NAMES[1 - by], NAMES[by])


def _acknowledged(known: ConnectionState, far: Distance, at: int, sender: int) -> Wait:
    """An ACK ends the gap: what `sender` sends next shows what it waited for."""
    receiver = 1 - sender
    room = _room(known, at, sender)
    after = _next_data(known, far, at, sender)
    unknown = known.edge[sender][at] < 0
    closed = room <= 0 and known.window[receiver][at] == 0
    if known.shut[receiver][at] == 1 if unknown else closed:
        return Wait(CLOSED_WINDOW, NAMES[sender], NAMES[receiver])
    if after is None:
        if known.ack[at] > known.acked[sender][at]:
            return _distance(known, far, at, DELAYED_ACK)
        return Wait(IDLE, NOBODY, NOBODY)
    held, full = int(known.length[after]), int(known.mss_bytes[at])
    if not unknown and room < min(held, full):
        return Wait(FULL_WINDOW, NAMES[sender], NAMES[receiver])
    # tcp_minshall_check: a small one was in flight, and this acknowledges it.
    if held < full and known.acked[sender][at] < known.small[sender][at] <= known.ack[at]:
        return _distance(known, far, at, NAGLE_AND_DELAYED_ACK)
    # Data that arrives before this ACK can have reached the sender was not waiting for it.
    early = known.time_ns[after] - known.time_ns[at] < far.far_ns[sender] - SOON_NS
    if early and 0 < known.ack[at] - known.acked[sender][at] <= full:
        return _distance(known, far, at, DELAYED_ACK)
    return _distance(known, far, at, ROUND_TRIP)


def _distance(known: ConnectionState, far: Distance, at: int, reason: str) -> Wait:
    """The reason, unless the length of the gap contradicts it."""
    gap = int(known.time_ns[at] - known.time_ns[at - 1])
    receiver = int(known.direction[at])
    waits = (NOBODY, NOBODY) if reason == DELAYED_ACK else (NAMES[1 - receiver], NAMES[receiver])
    if reason in (NAGLE_AND_DELAYED_ACK, DELAYED_ACK):
        if SHORTEST_DELAY_NS <= gap - far.far_ns[receiver] <= LONGEST_DELAY_NS:
            return Wait(reason, *waits)
        reason = NAGLE if reason == NAGLE_AND_DELAYED_ACK else ROUND_TRIP
    near = gap <= max(ROUND_TRIPS * far.rtt_ns, SOON_NS)
    return Wait(reason if near else UNEXPLAINED, *waits)


def _room(known: ConnectionState, at: int, sender: int) -> int:
    """The bytes that the sender could still send before the segment at that place."""
    return int(known.edge[sender][at] - known.sent[sender][at])


def _next_data(known: ConnectionState, far: Distance, at: int, sender: int) -> int | None:
    """The next new data of the sender, if it follows at once or within a round trip."""
    soon = int(known.time_ns[at]) + far.rtt_ns + SOON_NS
    place = known.next_carrying(at)
    if place is None or known.time_ns[place] > soon or known.direction[place] != sender:
        return None
    return place if known.end[place] > known.sent[sender][at] else None
