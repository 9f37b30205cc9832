"""How loss-based flows with different round-trip times or controls share a FIFO.

Windows between losses grow per round trip (Reno) or per second (CUBIC). If all flows lose packets
at the same moments, as in a FIFO with few flows, windows are proportional to the growth in equal
times, and throughput is a window per RTT: Reno's is proportional to 1/RTT², CUBIC's to 1/RTT. If
losses are independent of the flows (many flows, random loss), Reno's is proportional to 1/RTT.

`synchronised` is a fluid model of the first case: each flow grows by its own rule, all reduce their
windows when the queue is full. It contains the delay in the queue, which makes RTTs more alike, and
CUBIC's Reno-friendly region, in which CUBIC is as unfair as Reno.

Sources: T. V. Lakshman, U. Madhow, "The Performance of TCP/IP for Networks with High
Bandwidth-Delay Products and Random Loss", IEEE/ACM ToN 5(3), 1997; RFC 9438 sections 3.3 and 4.2 to
4.7 (window, Reno-friendly region, multiplicative decrease, fast convergence).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log

from labs.read.theory.sawtooth import BETA, CUBIC_C

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
