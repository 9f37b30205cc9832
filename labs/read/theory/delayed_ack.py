"""The delayed ACK: when Linux acknowledges at once, and how long it waits otherwise."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_RCV_MSS_BYTES = 536
"""What a receiver takes a full segment to be before it has seen one: include/net/tcp.h
TCP_MSS_DEFAULT, net/ipv4/tcp_input.c tcp_initialize_rcv_mss()."""
LARGEST_RTT_MS = 40.0
"""Up to here the wait is the shortest one: net/ipv4/tcp_output.c tcp_send_delayed_ack() bounds a
longer estimate by the round trip, and that by 40 ms from below."""


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
