"""The shares that fair queueing gives to flows: equal ones to those that want more (max-min).

Source: A. Demers, S. Keshav, S. Shenker, "Analysis and Simulation of a Fair Queueing Algorithm",
SIGCOMM 1989; RFC 8290 sections 1.3 and 4.2 (the round robin of FQ-CoDel, by bytes). Flows with
segments of one size get the same rate, whatever their congestion control, RTT and window.
"""

from __future__ import annotations

from collections.abc import Sequence


def shares(wanted: Sequence[float | None]) -> tuple[float, ...]:
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
