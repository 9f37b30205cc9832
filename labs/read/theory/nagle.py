"""Delayed ACKs and Nagle's algorithm in Linux, and how long a response in several writes takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FIRST_RCV_MSS_BYTES = 536
"""What a receiver takes a full segment to be before it has seen one: include/net/tcp.h
TCP_MSS_DEFAULT, net/ipv4/tcp_input.c tcp_initialize_rcv_mss()."""
LARGEST_RTT_MS = 40.0
"""Up to here the wait is the shortest one: net/ipv4/tcp_output.c tcp_send_delayed_ack() bounds a
longer estimate by the round trip, and that by 40 ms from below."""
BETWEEN_WRITES_MS = 0.1
"""An ACK of a shorter round trip is back before a program comes to its next write."""


@dataclass(frozen=True)
class Wait:
    """How long an ACK is held back, in ms: at least and at most, by where in a tick it began.

    An exchange that the timer itself started begins right behind a tick, so from the second stall
    of a connection on it is the most.
    """

    least_ms: float
    most_ms: float


def wait(hz: int) -> Wait:
    """The shortest delay of an ACK on a kernel with `hz` ticks a second.

    HZ/25 ticks in whole numbers (include/net/tcp.h TCP_ATO_MIN), counted from the tick that is
    under way; the timer wheel fires one tick behind that (kernel/time/timer.c calc_index(), since
    4.8). So it takes from HZ/25 ticks to one more: 40 to 44 ms at 250 ticks, 40 to 50 at 100.
    """
    ticks = hz // 25
    return Wait(1e3 * ticks / hz, 1e3 * (ticks + 1) / hz)


def acknowledged_at_once(waiting_bytes: int, rcv_mss_bytes: int, *, quick: bool) -> bool:
    """Whether what has come is acknowledged without waiting for the timer or for a ride.

    More than one full segment is, and everything in quick ACK mode: on a new connection, on a route
    with `quickack 1`, after setsockopt(TCP_QUICKACK). Source: net/ipv4/tcp_input.c
    __tcp_ack_snd_check().
    """
    return quick or waiting_bytes > rcv_mss_bytes


def rcv_mss_bytes(largest_segment_bytes: int) -> int:
    """What the receiver takes for a full segment once it has seen segments of that size.

    Source: net/ipv4/tcp_input.c tcp_measure_rcv_mss(): it begins at 536 and grows.
    """
    return max(FIRST_RCV_MSS_BYTES, largest_segment_bytes)


def held_back(*, partial: bool, nodelay: bool, more_to_come: bool, small_unacked: bool) -> bool:
    """Whether a segment that could be sent stays behind.

    A full one never does. One that is not full waits for more under TCP_CORK or MSG_MORE; else,
    without TCP_NODELAY, as long as an earlier one that was not full is not acknowledged: Minshall's
    form of the rule, in which full segments do not count.
    Source: net/ipv4/tcp_output.c tcp_nagle_check(), tcp_minshall_check().
    """
    return partial and (more_to_come or (not nodelay and small_unacked))


@dataclass(frozen=True)
class Sent:
    """What of an answer leaves before anything of it is acknowledged, and what waits: payloads in
    bytes, a segment each."""

    at_once: tuple[int, ...]
    held: tuple[int, ...]


def sent(
    writes: Sequence[int],
    mss_bytes: int,
    *,
    nodelay: bool = False,
    joined: bool = False,
    acked_between: bool = False,
) -> Sent:
    """What becomes of an answer that is written in pieces of these sizes.

    `joined`: under TCP_CORK, or with MSG_MORE on all writes but the last. `acked_between`: each
    segment is acknowledged before the next write.
    """
    at_once: list[int] = []
    waiting, small_unacked = 0, False
    for place, size in enumerate(writes, start=1):
        waiting += size
        at_once += [mss_bytes] * (waiting // mss_bytes)
        waiting %= mss_bytes
        if waiting and not held_back(
            partial=True,
            nodelay=nodelay,
            more_to_come=joined and place < len(writes),
            small_unacked=small_unacked and not acked_between,
        ):
            at_once.append(waiting)
            waiting, small_unacked = 0, True
    return Sent(tuple(at_once), (waiting,) if waiting else ())


@dataclass(frozen=True)
class Answer:
    """The prediction for one answer: its segments, whether it waits for the client's timer, and
    how long it takes, in ms (`steady_ms`), the first one of a connection (`first_ms`), and the mean
    over all that are made on it; None where the theory has no word."""

    segments: int
    stalls: bool
    first_ms: float
    steady_ms: float
    mean_ms: float


def answer(
    writes: Sequence[int],
    mss_bytes: int,
    *,
    hz: int,
    rtt_ms: float,
    requests: int,
    nodelay: bool = False,
    joined: bool = False,
    quick: bool = False,
    closes: bool = False,
) -> Answer | None:
    """What a client sees that makes `requests` requests on a connection, one behind the other.

    `quick`: the client acknowledges at once, always; otherwise it does so for the first answer
    alone. `closes`: the server closes behind the answer, which sends what was held back
    (net/ipv4/tcp_output.c tcp_send_fin()). None for a round trip above 40 ms, with which the
    client's wait is no longer the shortest.
    """
    if rtt_ms > LARGEST_RTT_MS:
        return None
    near = quick and rtt_ms < BETWEEN_WRITES_MS
    found = sent(writes, mss_bytes, nodelay=nodelay, joined=joined, acked_between=near)
    held = bool(found.held) and not closes
    largest = max(found.at_once + found.held)
    at_once = acknowledged_at_once(sum(found.at_once), rcv_mss_bytes(largest), quick=quick)
    trips = 2 if held else 1
    first_ms = rtt_ms * (trips + 1)  # with the connect
    steady_ms = rtt_ms * trips + (wait(hz).most_ms if held and not at_once else 0.0)
    return Answer(
        segments=len(found.at_once) + len(found.held),
        stalls=held and not at_once,
        first_ms=first_ms,
        steady_ms=steady_ms,
        mean_ms=(first_ms + (requests - 1) * steady_ms) / requests,
    )
