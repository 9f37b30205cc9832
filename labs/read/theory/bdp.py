"""What a link carries: bandwidth-delay product, payload rate, stop-and-wait utilisation, what
random loss leaves of it, and how many ACKs a slow reverse path returns.

Slow ACKs: RFC 3449 sections 1 and 3.1, after T. V. Lakshman, U. Madhow, B. Suter, "Window-based
Error Recovery and Flow Control with a Slow Acknowledgement Channel", INFOCOM 1997.
"""

from __future__ import annotations

from math import sqrt

from labs.guest.testbed.link import FRAME_BYTES, MSS_BYTES
from labs.guest.units import bytes_carried, bytes_per_second

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


RANDOM_LOSS = 1.31
"""The constant for independent losses with every segment acknowledged, or counted as such.

Source: Mathis, Semke, Mahdavi, Ott, "The Macroscopic Behavior of the TCP Congestion Avoidance
Algorithm", CCR 27(3), 1997; RFC 3819 section 8.5.1 has 0.93, by sqrt(2) less, for an ACK per two
segments. Linux counts acknowledged segments, not ACKs: net/ipv4/tcp_cong.c tcp_cong_avoid_ai().
"""
FOLLOWS_MATHIS = ("reno", "cubic")
"""Congestion controls that the formula describes. CUBIC does where the interval between losses is
short, its Reno-friendly region (RFC 9438, section 4.3)."""


BBR_TOLERATES_PCT = 5.0
"""Random loss up to which BBR fills a link. It does not take a loss for congestion.

Source: Cardwell, Cheng, Gunn, Yeganeh, Jacobson, "BBR: Congestion-Based Congestion Control", ACM
Queue 14(5), 2016, figure 8.
"""


def mathis_bytes_s(loss_pct: float, rtt_ms: float, mss_bytes: int = MSS_BYTES) -> float:
    """Goodput in bytes per second at this share of lost segments, if neither the link nor a window
    limits it: MSS / RTT * C / sqrt(p)."""
    if loss_pct <= 0 or rtt_ms <= 0:
        raise ValueError("the formula needs a loss and a round-trip time above 0")
    return mss_bytes / (rtt_ms / 1e3) * RANDOM_LOSS / sqrt(loss_pct / 100)


def losses_per_bdp(loss_pct: float, bdp_segments: float) -> float:
    """How many of the segments of one BDP are lost on average. Two links with the same figure and
    the same BDP behave alike, whatever their rate and RTT."""
    return loss_pct / 100 * bdp_segments


def mathis_utilisation(loss_pct: float, bdp_segments: float) -> float:
    """The share of a link that a loss-based flow uses: C / (BDP sqrt(p)), at most 1. It depends on
    p and the BDP in segments alone, so figures of one link apply to another with the same BDP."""
    if loss_pct <= 0:
        return 1.0
    return min(1.0, RANDOM_LOSS / (bdp_segments * sqrt(loss_pct / 100)))


def loss_event_pct(loss_pct: float, mean_burst: float) -> float:
    """The rate of loss events of bursty loss: the losses of one burst halve a window once, so the
    formula takes p divided by the mean length of a burst.

    Source: Mathis and others: p counts congestion signals, of which a round trip has at most one.
    """
    if mean_burst < 1:
        raise ValueError("a burst has at least one loss")
    return loss_pct / mean_burst


ACK_BYTES = 66
"""An ACK as a shaper counts it: Ethernet (14), IPv4 (20), TCP with timestamps (32)."""
SEGMENTS_PER_ACK = 2
"""RFC 5681 section 4.2; a receiver that coalesces segments acknowledges more at once."""


def bandwidth_ratio(forward_mbit: float, back_mbit: float) -> float:
    """The normalised bandwidth ratio k. Beyond the segments per ACK, ACKs saturate the reverse path
    first; 8 for 10 Mbit/s forward and 0.054 in reverse."""
    return (forward_mbit / back_mbit) / (FRAME_BYTES / ACK_BYTES)


def clocked_goodput_bytes_s(back_mbit: float, segments_per_ack: float = SEGMENTS_PER_ACK) -> float:
    """The goodput if each ACK that the reverse path carries acknowledges so many full segments."""
    return bytes_per_second(back_mbit) / ACK_BYTES * segments_per_ack * MSS_BYTES
