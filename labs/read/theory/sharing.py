"""How flows share a link: in a FIFO by their round-trip times and congestion controls, BBR version
1 against loss-based flows, and under fair queueing.

Windows between losses grow per round trip (Reno) or per second (CUBIC). If all flows lose packets
at the same moments, as in a FIFO with few flows, windows are proportional to the growth in equal
times, and throughput is a window per RTT: Reno's is proportional to 1/RTT², CUBIC's to 1/RTT. If
losses are independent of the flows (many flows, random loss), Reno's is proportional to 1/RTT.

`synchronised` is a fluid model of the first case: each flow grows by its own rule, all reduce their
windows when the queue is full. It contains the delay in the queue, which makes RTTs more alike, and
CUBIC's Reno-friendly region, in which CUBIC is as unfair as Reno.

BBR's window is limited to two of its estimated BDPs. It estimates the RTT while its own queue is
drained (ProbeRTT), so that estimate includes the others' queue. The limit and what is in flight
meet at a share that depends on the buffer, not on the number of loss-based flows.

Sources: T. V. Lakshman, U. Madhow, "The Performance of TCP/IP for Networks with High
Bandwidth-Delay Products and Random Loss", IEEE/ACM ToN 5(3), 1997; RFC 9438 sections 3.3 and 4.2 to
4.7 (window, Reno-friendly region, multiplicative decrease, fast convergence); R. Ware, M. K.
Mukerjee, S. Seshan, J. Sherry, "Modeling BBR's Interactions with Loss-Based Congestion Control",
IMC 2019, equations 9 to 11; A. Demers, S. Keshav, S. Shenker, "Analysis and Simulation of a Fair
Queueing Algorithm", SIGCOMM 1989; RFC 8290 sections 1.3 and 4.2 (the round robin of FQ-CoDel).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log

from labs.read.theory.queues import BETA, CUBIC_C

SIMULATED_S = 160.0
STEP_S = 0.005
FIRST_SEGMENTS = 10.0


@dataclass(frozen=True)
class Sharing:
    """What the model has in the second half of its time: the share of each flow, the share of the
    link in use, and the median delay in the queue."""

    shares: tuple[float, ...]
    utilisation_pct: float
    queue_ms: float


class _Flow:
    """The window of one flow, in segments."""

    def __init__(self, control: str, rtt_s: float) -> None:
        self.control, self.rtt_s = control, rtt_s
        self.beta = BETA[control]
        self.per_rtt = 1.0 if control == "reno" else 3 * (1 - self.beta) / (1 + self.beta)
        self.window = self.friendly = self.most = FIRST_SEGMENTS
        self.since_s = self.reaches_s = 0.0

    def grow(self, queue_s: float) -> None:
        self.friendly += self.per_rtt * STEP_S / (self.rtt_s + queue_s)
        self.window = self.friendly
        if self.control == "cubic":
            self.since_s += STEP_S
            cubic_window = self.most + CUBIC_C * (self.since_s - self.reaches_s) ** 3
            self.window = max(self.friendly, cubic_window)

    def lose(self) -> None:
        """Fast convergence: a flow that did not reach its former maximum aims lower."""
        lower = self.control == "cubic" and self.window < self.most
        self.most = self.window * (1 + self.beta) / 2 if lower else self.window
        self.window = self.friendly = self.beta * self.window
        self.since_s = 0.0
        self.reaches_s = (max(0.0, self.most - self.window) / CUBIC_C) ** (1 / 3)


@lru_cache(maxsize=256)
def synchronised(
    controls: tuple[str, ...],
    rtts_ms: tuple[float, ...],
    capacity_per_s: float,
    buffer_segments: float,
) -> Sharing:
    """Flows on a link of so many segments per second that all reduce their windows when the queue
    is full; the RTTs are those without a queue."""
    flows = [_Flow(name, rtt / 1e3) for name, rtt in zip(controls, rtts_ms, strict=True)]
    full_s, queue_s = buffer_segments / capacity_per_s, 0.0
    steps = round(SIMULATED_S / STEP_S)
    delivered, used, queues = [0.0] * len(flows), 0.0, []
    for step in range(steps):
        rates = [flow.window / (flow.rtt_s + queue_s) for flow in flows]
        offered = sum(rates) / capacity_per_s
        if step >= steps // 2:
            through = min(1.0, offered) if queue_s <= 0 else 1.0
            used += through
            queues.append(queue_s)
            for place, rate in enumerate(rates):
                delivered[place] += rate / sum(rates) * through
        queue_s = max(0.0, queue_s + (offered - 1) * STEP_S)
        if queue_s >= full_s and offered > 1:
            queue_s = full_s
            for flow in flows:
                flow.lose()
        else:
            for flow in flows:
                flow.grow(queue_s)
    return Sharing(
        tuple(part / sum(delivered) for part in delivered),
        100 * used / (steps - steps // 2),
        1e3 * sorted(queues)[len(queues) // 2],
    )


def independent(rtts_ms: Sequence[float], queue_ms: float = 0.0) -> tuple[float, ...]:
    """The shares if each flow loses by itself: 1/RTT, with the delay in the queue."""
    weights = [1 / (rtt + queue_ms) for rtt in rtts_ms]
    return tuple(weight / sum(weights) for weight in weights)


def power_of_rtt(
    rates: tuple[float, float], rtts_ms: tuple[float | None, float | None]
) -> float | None:
    """The power of 1/RTT by which the rates of two flows differ; None if a flow carried nothing, an
    RTT is unknown, or the RTTs are equal."""
    (far, near), (far_ms, near_ms) = rates, rtts_ms
    if far <= 0 or near <= 0 or not far_ms or not near_ms or far_ms == near_ms:
        return None
    return log(near / far) / log(far_ms / near_ms)


PROBE_RTT_SEGMENTS = 4
PROBE_RTT_S = 0.2
PROBE_RTT_EVERY_S = 10.0
"""net/ipv4/tcp_bbr.c bbr_cwnd_min_target, bbr_probe_rtt_mode_ms, bbr_min_rtt_win_sec."""


def bbr_share(buffer_bdp: float, capacity_per_s: float, rtt_ms: float, bbr_flows: int = 1) -> float:
    """The share of all BBR flows together on a link that carries so many segments per second.

    Below one BDP of buffer the limit exceeds all that fits into pipe and buffer, and the model
    gives BBR everything outside of ProbeRTT. 0.75 for 2 BDPs, 0.53 for 16 without ProbeRTT.
    """
    rtt_s = rtt_ms / 1e3
    buffer_segments = buffer_bdp * capacity_per_s * rtt_s
    others = 0.5 - 1 / (2 * buffer_bdp) - PROBE_RTT_SEGMENTS * bbr_flows / buffer_segments
    probing_s = buffer_segments / capacity_per_s + PROBE_RTT_S + rtt_s
    return (1 - max(0.0, others)) * max(0.0, 1 - probing_s / PROBE_RTT_EVERY_S)


def fair_shares(wanted: Sequence[float | None]) -> tuple[float, ...]:
    """The share of each flow of a link; `wanted` is what its application limits it to, as a share
    of the link (None: no limit).

    (0.5, 0.5) for two greedy flows, (0.1, 0.45, 0.45) if one of three wants only a tenth.
    """
    granted: dict[int, float] = {}
    left = 1.0
    for done, place in enumerate(sorted(range(len(wanted)), key=lambda flow: _limit(wanted[flow]))):
        equal = left / (len(wanted) - done)
        granted[place] = min(equal, _limit(wanted[place]))
        left -= granted[place]
    return tuple(granted[place] for place in range(len(wanted)))


def _limit(wanted: float | None) -> float:
    return float("inf") if wanted is None else wanted


def jain(rates: Sequence[float]) -> float:
    """Jain's index of fairness: 1 if all are equal, 1/n if one of n has everything.

    Source: R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness and Discrimination for
    Resource Allocation in Shared Computer Systems", DEC TR-301, 1984.
    """
    squares = sum(rate**2 for rate in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares else 1.0
