"""How flows with different round-trip times share a FIFO.

Windows between losses grow per round trip (Reno) or per second (CUBIC). If all flows lose packets
at the same moments, as in a FIFO with few flows, windows are proportional to the growth in equal
times, and throughput is a window per RTT: Reno's is proportional to 1/RTT², CUBIC's to 1/RTT. If
losses are independent of the flows (many flows, random loss), Reno's is proportional to 1/RTT.

Sources: T. V. Lakshman, U. Madhow, "The Performance of TCP/IP for Networks with High
Bandwidth-Delay Products and Random Loss", IEEE/ACM ToN 5(3), 1997; RFC 9438 section 3.3. RTTs
include the delay in the queue, which all flows share and which makes their RTTs more alike.
"""

from __future__ import annotations

from collections.abc import Sequence

from labs.read.theory.sawtooth import cycle

SYNCHRONISED, INDEPENDENT = "synchronised", "independent"
ROUNDS = 200
"""Iterations of shares and queue, each half-way towards the next."""


def exponent(control: str, losses: str, *, cubic_region: bool) -> int:
    """The power of 1/RTT that throughput is proportional to; CUBIC's growth is Reno's in the
    Reno-friendly region."""
    by_time = control == "cubic" and cubic_region
    return 1 if by_time or losses == INDEPENDENT else 2


def shares(
    control: str,
    capacity_per_s: float,
    rtts_ms: Sequence[float],
    buffer_segments: float,
    losses: str = SYNCHRONISED,
) -> tuple[float, ...]:
    """The share of each flow, for their RTTs without a queue.

    The queue is that of one flow whose RTT is the mean of theirs, weighted by their shares: a queue
    depends on the shares and the shares on the queue.
    """
    found = tuple(1 / len(rtts_ms) for _ in rtts_ms)
    for _ in range(ROUNDS):
        base_ms = sum(share * rtt for share, rtt in zip(found, rtts_ms, strict=True))
        now = cycle(control, capacity_per_s, round(base_ms, 3), buffer_segments)
        power = exponent(control, losses, cubic_region=now.cubic_region)
        weights = [(rtt + now.mean_queue_ms) ** -power for rtt in rtts_ms]
        new = tuple(weight / sum(weights) for weight in weights)
        if max(abs(one - other) for one, other in zip(new, found, strict=True)) < 1e-4:
            return new
        found = tuple((one + other) / 2 for one, other in zip(new, found, strict=True))
    return found
