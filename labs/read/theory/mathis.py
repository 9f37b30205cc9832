"""What random loss leaves of a loss-based congestion control: the formula of Mathis and others."""

from __future__ import annotations

from math import sqrt

from labs.drive.testbed.link import MSS_BYTES

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
