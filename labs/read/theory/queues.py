"""One loss-based flow in a FIFO or under CoDel: the cycle of its congestion window between two
losses, the utilisation of the link, and the queue; and the buffer that many flows need.

A fluid model. The window grows until the pipe and the buffer are full, is reduced to a share of
that, and grows again. While it is smaller than the pipe, the link is partly idle; beyond, the rest
waits in the queue. Growth per round trip (Reno) is slower while the queue delays round trips.

Sources: RFC 5681 sections 3.1 and 3.2 (Reno); RFC 9438 sections 4.2, 4.3, 4.6 and 5.1 (CUBIC: its
window, the Reno-friendly region, beta 0.7, C 0.4); G. Appenzeller, I. Keslassy, N. McKeown, "Sizing
Router Buffers", SIGCOMM 2004, sections 2 and 3; RFC 8289 sections 3.3, 4.2, 4.3 and 5 (CoDel).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import erf, sqrt

BETA = {"reno": 0.5, "cubic": 0.7}
"""What a loss leaves of the window."""
CUBIC_C = 0.4
"""Segments per s³ (RFC 9438, section 5.1)."""
STEPS_PER_RTT = 20
MOST_STEPS = 200_000


@dataclass(frozen=True)
class Cycle:
    """What a flow does between two losses, in its steady state.

    `queue_ms` are delays in the queue, each with the time that they last, in ascending order of the
    delay. `cubic_region` is whether CUBIC's own function decides the growth at its end, and not the
    estimate of Reno's window.
    """

    period_s: float
    utilisation_pct: float
    queue_ms: tuple[tuple[float, float], ...]
    cubic_region: bool

    def queue_percentile_ms(self, percent: float) -> float:
        """The delay in the queue that is not exceeded for this share of the time."""
        passed = accumulate(lasts for _, lasts in self.queue_ms)
        wanted = percent / 100 * self.period_s
        delays = (delay for delay, _ in self.queue_ms)
        return next(
            (delay for delay, at in zip(delays, passed, strict=True) if at >= wanted),
            self.queue_ms[-1][0],
        )


def reno_utilisation(buffer_bdp: float, beta: float = BETA["reno"]) -> float:
    """The share of a link that one AIMD flow uses with a FIFO of this many BDPs, in closed form.

    With the window in BDPs, a cycle runs from beta (1 + b) to 1 + b. Below 1 every round trip takes
    one RTT, beyond it w RTTs, in which w BDPs are delivered. 0.82 for 0.1, 0.96 for 0.5, 1 from
    1 / beta - 1 on.
    """
    peak = 1 + buffer_bdp
    least = beta * peak
    if least >= 1:
        return 1.0
    beyond = (peak**2 - 1) / 2
    return ((1 - least**2) / 2 + beyond) / (1 - least + beyond)


def full_buffer_bdp(control: str) -> float:
    """The smallest FIFO, in BDPs, that keeps the link busy: beta (1 + b) = 1."""
    return 1 / BETA[control] - 1


@lru_cache(maxsize=1024)
def cycle(control: str, capacity_per_s: float, rtt_ms: float, buffer_segments: float) -> Cycle:
    """The cycle of a flow alone on a link that carries so many segments per second."""
    rtt_s = rtt_ms / 1e3
    pipe = capacity_per_s * rtt_s
    peak = pipe + buffer_segments
    beta = BETA[control]
    window = friendly = beta * peak
    reaches_s = (peak * (1 - beta) / CUBIC_C) ** (1 / 3)
    per_rtt = 1.0 if control == "reno" else 3 * (1 - beta) / (1 + beta)
    # Larger steps for a long cycle, so that it is whole within MOST_STEPS.
    step_rtts = max(1 / STEPS_PER_RTT, peak * (1 - beta) / per_rtt / MOST_STEPS)
    at_s, delivered, cubic = 0.0, 0.0, False
    queue: list[tuple[float, float]] = []
    while window < peak:
        round_s = max(rtt_s, window / capacity_per_s)
        step_s = round_s * step_rtts
        delivered += min(capacity_per_s, window / round_s) * step_s
        queue.append((1e3 * max(0.0, window - pipe) / capacity_per_s, step_s))
        at_s += step_s
        friendly += per_rtt * step_rtts
        window = friendly
        if control == "cubic":
            cubic_window = peak + CUBIC_C * (at_s - reaches_s) ** 3
            cubic = cubic_window > friendly
            window = max(friendly, cubic_window)
    return Cycle(
        period_s=at_s,
        utilisation_pct=100 * delivered / (capacity_per_s * at_s),
        queue_ms=tuple(sorted(queue)),
        cubic_region=cubic,
    )


# Many flows that do not lose packets at the same moments average out: the sum of n windows varies
# by 1/sqrt(n) of what one window does.


def needed_bdp(flows: int) -> float:
    """The buffer in BDPs that keeps a link busy with so many Reno flows out of phase: 1/sqrt(n)."""
    return 1 / sqrt(flows)


def many_flows_utilisation(flows: int, buffer_bdp: float) -> float:
    """The least share of a link that so many Reno flows out of phase use.

    The sum of their windows is taken as normally distributed, each window as uniform between 2/3
    and 4/3 of its mean. 0.9899 for 10,000 flows and a buffer of 1/sqrt(n) BDPs.
    """
    spread = (1 + buffer_bdp) / sqrt(flows)
    return erf(3 * sqrt(3) / (2 * sqrt(2)) * buffer_bdp / spread)


TARGET_MS = 5.0
INTERVAL_MS = 100.0


def largest_queue_ms(
    rtt_ms: float,
    capacity_per_s: float,
    target_ms: float = TARGET_MS,
    interval_ms: float = INTERVAL_MS,
) -> float:
    """The delay in the queue when a Reno flow alone reacts to CoDel's first drop.

    From the moment at which the delay reaches the target, the window grows by one segment per round
    trip, through an interval and the round trip of the loss. For CoDel this is what the buffer is
    for a FIFO.
    """
    round_ms = rtt_ms + target_ms
    segments = interval_ms / round_ms + 1
    return target_ms + 1e3 * segments / capacity_per_s
