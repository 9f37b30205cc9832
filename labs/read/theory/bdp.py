"""What a link carries: bandwidth-delay product, payload rate, and stop-and-wait utilisation."""

from __future__ import annotations

from labs.drive.testbed.link import FRAME_BYTES, MSS_BYTES
from labs.drive.units import bytes_carried, bytes_per_second

HEADER_BYTES = FRAME_BYTES - MSS_BYTES
"""What htb counts around that payload: Ethernet (14), IPv4 (20), TCP with timestamps (32).

Source: net/core/dev.c qdisc_pkt_len_init() (in 7.2 qdisc_pkt_len_segs_init()): skb->len with the
link layer's header, and the headers again for every segment of a super-packet; neither preamble,
checksum nor gap of a wire.
"""

INITIAL_WINDOW_SEGMENTS = 10
"""include/net/tcp.h TCP_INIT_CWND; RFC 6928."""


def bdp_bytes(rate_mbit: float, rtt_ms: float) -> float:
    """Bytes in flight when a link of this rate is full for one round trip; 25 MB for 1000 mbit
    and 200 ms. Headers count: it is the link that is filled."""
    return bytes_carried(rate_mbit, rtt_ms)


def payload_share(mss_bytes: int = MSS_BYTES, header_bytes: int = HEADER_BYTES) -> float:
    """The part of a link's rate that is payload when all segments are full: 1448 of 1514."""
    return mss_bytes / (mss_bytes + header_bytes)


def line_goodput_bytes_s(rate_mbit: float, mss_bytes: int = MSS_BYTES) -> float:
    """Payload bytes per second over a full link of this rate."""
    return bytes_per_second(rate_mbit) * payload_share(mss_bytes)


def mean_goodput_bytes_s(
    steady_bytes_s: float,
    rtt_ms: float,
    *,
    transfer_bytes: float | None = None,
    duration_s: float | None = None,
    mss_bytes: int = MSS_BYTES,
) -> float:
    """The mean from request to last byte of a flow whose steady goodput is known.

    Slow start: the first data comes one round trip after the request, ten segments of it, and
    each round trip brings twice as much, until a round trip's worth of the steady goodput is
    reached. Give either how many bytes are sent or how long it is watched. Losses during slow
    start, and a receive buffer that grows more slowly than that, are not in it.
    Source: RFC 9406 section 4 (slow start); net/ipv4/tcp_cong.c tcp_slow_start().
    """
    if (transfer_bytes is None) == (duration_s is None):
        raise ValueError("give transfer_bytes or duration_s, and not both")
    rtt_s = rtt_ms / 1e3
    full_round = steady_bytes_s * rtt_s
    came, at_s, round_bytes = 0.0, rtt_s, float(INITIAL_WINDOW_SEGMENTS * mss_bytes)
    while round_bytes < full_round:
        if transfer_bytes is not None and came + round_bytes >= transfer_bytes:
            return transfer_bytes / at_s
        if duration_s is not None and at_s > duration_s:
            return came / duration_s
        came += round_bytes
        at_s += rtt_s
        round_bytes *= 2
    if transfer_bytes is not None:
        return transfer_bytes / (at_s + max(0.0, transfer_bytes - came) / steady_bytes_s)
    assert duration_s is not None
    return (came + steady_bytes_s * max(0.0, duration_s - at_s)) / duration_s


def sending_ms(block_bytes: float, rate_bytes_s: float) -> float:
    """How long a block takes to be put on the line; 10 ms for 1 MB at 100 MB/s."""
    return 1e3 * block_bytes / rate_bytes_s


def utilisation_pct(block_bytes: float, rate_bytes_s: float, rtt_ms: float) -> float:
    """The share of its time that the line is busy, in %: L/R of every L/R + RTT.

    Sending a block takes L/R, and the response to its last byte arrives one round trip later; then
    the next block is sent. 2.44 % for 1 MB at 100 MB/s and 400 ms (10 of 410 ms),
    4.76 % at 200 ms (10 of 210 ms).
    Source: the stop-and-wait protocol of any textbook, with neither losses nor headers.
    """
    busy_ms = sending_ms(block_bytes, rate_bytes_s)
    return 100 * busy_ms / (busy_ms + rtt_ms)


def of_the_wait_pct(block_bytes: float, rate_bytes_s: float, rtt_ms: float) -> float:
    """The same without the sending in the cycle, in %: L/R of every RTT.

    A rule of thumb (10 of 400 ms are 2.5 %, of 200 ms 5 %): good while sending a block is short
    compared with the round trip, and more than 100 % once it is longer.
    """
    return 100 * sending_ms(block_bytes, rate_bytes_s) / rtt_ms
