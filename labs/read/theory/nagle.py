"""Nagle's algorithm and delayed ACKs in Linux, and how long a response in several writes takes.

Nagle's algorithm (RFC 896; RFC 1122 4.2.3.4): a segment smaller than the MSS is not sent while any
data is unacknowledged. Linux uses Minshall's variant: only an unacknowledged segment that is itself
smaller than the MSS counts (`held_back`). Neither has a timer: an ACK releases the segment, and so
do enough further data, the end of the data, and TCP_NODELAY. A tail loss probe (RFC 8985 7) also
sends it, because the probe ignores Nagle's algorithm (net/ipv4/tcp_output.c tcp_send_loss_probe()).

Delayed ACKs: at least every second full-sized segment is acknowledged, and every segment within
500 ms (RFC 1122 4.2.3.2, RFC 5681 4.2). Linux acknowledges at once when more than one full-sized
segment, or two small ones, are waiting (`acknowledged_at_once`); otherwise it waits for 40 to
200 ms (TCP_ATO_MIN, TCP_DELACK_MAX in include/net/tcp.h). The delay follows the intervals at which
data arrives, but does not exceed the RTT if that is above 40 ms. It is the shortest one, 40 ms, in
requests and responses: data arrives back to back or at least an RTT apart (net/ipv4/tcp_input.c
tcp_event_data_recv()), and a timer that expires in an interactive session resets the estimate to
40 ms (net/ipv4/tcp_timer.c tcp_delack_timer_handler()). 200 ms occur where a sender pauses for
about 100 to 200 ms between its segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FIRST_RCV_MSS_BYTES = 536
"""The receiver's estimate of a full-sized segment before it has seen one: include/net/tcp.h
TCP_MSS_DEFAULT, net/ipv4/tcp_input.c tcp_initialize_rcv_mss()."""
INITIAL_WINDOW_SEGMENTS = 10
"""TCP_INIT_CWND in include/net/tcp.h. A larger response takes further round trips."""
BETWEEN_WRITES_MS = 0.1
"""With a shorter RTT, an ACK returns before the program's next write."""


@dataclass(frozen=True)
class Wait:
    """The delay of an ACK in ms, at least and at most, depending on when in a tick it begins.

    An exchange that the timer itself started begins just after a tick. If its data also arrives
    just after a tick, the delay is the longest; see `after_tick_ms`.
    """

    least_ms: float
    most_ms: float

    def after_tick_ms(self, since_tick_ms: float) -> float:
        """The delay of an ACK that begins so long after a tick."""
        return self.most_ms - since_tick_ms % (self.most_ms - self.least_ms)


def wait(hz: int) -> Wait:
    """The shortest delay of an ACK on a kernel with `hz` ticks per second.

    HZ/25 whole ticks (include/net/tcp.h TCP_ATO_MIN), counted from the current tick; the timer
    wheel fires one tick later (kernel/time/timer.c calc_index(), since 4.8). The delay is therefore
    between HZ/25 ticks and one more: 40 to 44 ms at 250 Hz, 40 to 50 ms at 100 Hz.
    """
    ticks = hz // 25
    return Wait(1e3 * ticks / hz, 1e3 * (ticks + 1) / hz)


def acknowledged_at_once(segments: Sequence[int], rcv_mss_bytes: int, *, quick: bool) -> bool:
    """Whether segments of these sizes, received and read, are acknowledged without waiting for the
    timer or for data to send.

    More than one full-sized segment is (net/ipv4/tcp_input.c __tcp_ack_snd_check()), and two small
    ones are once the program has read them: the second sets ICSK_ACK_PUSHED2
    (tcp_measure_rcv_mss()), on which net/ipv4/tcp.c __tcp_cleanup_rbuf() sends the ACK (in 5.10
    tcp_cleanup_rbuf()). Everything is in quick ACK mode: on a new connection, on a route with
    `quickack 1`, after setsockopt(TCP_QUICKACK).
    """
    small = [size for size in segments if size < rcv_mss_bytes]
    return quick or sum(segments) > rcv_mss_bytes or len(small) > 1


def rcv_mss_bytes(largest_segment_bytes: int) -> int:
    """The receiver's estimate of a full-sized segment after it has seen segments of that size.

    Source: net/ipv4/tcp_input.c tcp_measure_rcv_mss(): it starts at 536 and grows.
    """
    return max(FIRST_RCV_MSS_BYTES, largest_segment_bytes)


def held_back(*, partial: bool, nodelay: bool, more_to_come: bool, small_unacked: bool) -> bool:
    """Whether a segment that the windows permit is held back.

    A full one never is. A partial one waits for more data under TCP_CORK or MSG_MORE; otherwise,
    without TCP_NODELAY, it waits while an earlier partial segment is unacknowledged (Minshall's
    variant). Unacknowledged full segments do not matter.
    Source: net/ipv4/tcp_output.c tcp_nagle_check(), tcp_minshall_check().
    """
    return partial and (more_to_come or (not nodelay and small_unacked))


@dataclass(frozen=True)
class Sent:
    """The payloads in bytes, one per segment, that are sent before any ACK, and those held back."""

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
    """The segments of a response that is written in pieces of these sizes.

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
    """The prediction for a response: its segments, whether it waits for the client's timer, and its
    duration in ms: the first one of a connection (`first_ms`), all others (`steady_ms`), and the
    mean of all that are requested on the connection."""

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
    handshake: bool = True,
) -> Answer | None:
    """The times of a client that makes `requests` requests on a connection, one after the other.

    `quick`: the client always acknowledges at once; otherwise it does so only for the first
    response. `closes`: the server closes after the response, which sends what was held back
    (net/ipv4/tcp_output.c tcp_send_fin()). `handshake`: the client counts the handshake as part of
    the first request. None for a response of several round trips, larger than the initial window.
    """
    if sum(writes) > INITIAL_WINDOW_SEGMENTS * mss_bytes and rtt_ms >= BETWEEN_WRITES_MS:
        return None
    near = quick and rtt_ms < BETWEEN_WRITES_MS
    segments = sent(writes, mss_bytes, nodelay=nodelay, joined=joined, acked_between=near)
    held = bool(segments.held) and not closes
    largest = max(segments.at_once + segments.held)
    at_once = acknowledged_at_once(segments.at_once, rcv_mss_bytes(largest), quick=quick)
    trips = 2 if held else 1
    first_ms = rtt_ms * (trips + handshake)
    # The rest, which the timer released, arrives an RTT later, and the next response another RTT.
    timer_ms = wait(hz).after_tick_ms(2 * rtt_ms) if held and not at_once else 0.0
    steady_ms = rtt_ms * trips + timer_ms
    return Answer(
        segments=len(segments.at_once) + len(segments.held),
        stalls=held and not at_once,
        first_ms=first_ms,
        steady_ms=steady_ms,
        mean_ms=(first_ms + (requests - 1) * steady_ms) / requests,
    )
