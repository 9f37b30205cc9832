"""How far the result of a bulk transfer may lie from its prediction.

Where single packets decide, the result depends on what nobody knows beforehand, and under random
loss on chance. Both are told as an interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import quantiles

from labs.read.theory.bulk import (
    LINK,
    STEADY_SHARE,
    Transfer,
    draws,
    kept_transfers,
    simulated,
    transfer,
)
from labs.read.theory.bulk_flow import Flow
from labs.read.theory.bulk_simulation import HTB_CBURST_BYTES
from labs.read.theory.receiver import LEAST_RTO_US

UNKNOWN: tuple[dict[str, int], ...] = (
    {"phase_ns": 2_500_000},
    {"phase_ns": 1_300_000, "writing_ns": 5000, "reading_ns": 600},
    {"phase_ns": 750_000, "credit_bytes": HTB_CBURST_BYTES - 200, "writing_ns": 1500},
    {"phase_ns": 3_700_000, "writing_ns": 9000, "reading_ns": 1500},
    {"phase_ns": 3_100_000, "writing_ns": 14_000},
    *({"reads_by_chance": seed} for seed in range(1, 9)),
)
"""What is unknown beforehand: whether the shaper's credit has just been used, when the flow begins
within a tick of the kernel's clock (4 ms), how fast the programs are, and whether the reader reads
between two packets of a burst. The receiver sizes its window by what was read until then
(tcp_rcv_space_adjust()). Some combinations are simulated."""
OVERFLOWING: tuple[dict[str, int], ...] = tuple(
    {
        "phase_ns": 370_000 * draw % 4_000_000,
        "credit_bytes": HTB_CBURST_BYTES - 100 * (draw % 9),
        "writing_ns": 1000 + 700 * draw,
        "reads_by_chance": draw,
    }
    for draw in range(9, 29)
)
"""Further combinations, for a queue that overflows: which packets it drops depends on all of them.
"""
OVERFLOW_MARGIN = 0.05
"""By how much the interval is then wider than what is simulated, at either end: docs/model.md, *A
queue that overflows*."""
WIDEST_OVERFLOW = 0.4
TOO_WIDE = "a queue overflows, and single packets decide over more than a factor of 1.6"
SHOWN_WIDTH = 0.005
"""The least width of an interval that is shown, relative to its upper end."""
CUTS = 40
"""The 2.5th and the 97.5th percentile are the first and the last of 39 cuts."""


@dataclass(frozen=True)
class Interval:
    """The range of the predictions for one transfer: its goodput in steady state and over all, each
    from the lowest to the highest; with random loss the range of 95 % of the draws."""

    steady_bytes_s: tuple[float, float]
    goodput_bytes_s: tuple[float, float]

    @property
    def width(self) -> float:
        """The larger of the two widths, relative to the upper end."""
        return max(1 - low / high for low, high in (self.steady_bytes_s, self.goodput_bytes_s))


@lru_cache(maxsize=4096)
def interval(flow: Flow, transfer_bytes: int) -> Interval | None:
    """How far chance, or single packets (`UNKNOWN`), may change the result; None if `transfer`
    cannot say."""
    nominal = transfer(flow, transfer_bytes)
    if nominal.cannot_say:
        return None
    if flow.loss_pct:
        return _interval(draws(flow, transfer_bytes), _most)
    unknown = (*UNKNOWN, *OVERFLOWING) if nominal.overflows else UNKNOWN

    def others() -> tuple[Transfer, ...]:
        return tuple(simulated(flow, transfer_bytes, **arguments) for arguments in unknown)

    transfers = (nominal, *kept_transfers(flow, transfer_bytes, "interval", others))
    if nominal.overflows and flow.header_bytes and not flow.offloads:
        transfers = (*transfers, _last_packet_lost(nominal, flow.rtt_ms / 1e3))
    return _interval(transfers, lambda values: (min(values), max(values)))


def decided(flow: Flow, transfer_bytes: int) -> Transfer:
    """The transfer; without a prediction if its queue overflows and the interval of its steady
    goodput is too wide for one number to mean anything."""
    predicted = transfer(flow, transfer_bytes)
    wide = interval(flow, transfer_bytes) if predicted.overflows else None
    if wide is None or 1 - wide.steady_bytes_s[0] / wide.steady_bytes_s[1] <= WIDEST_OVERFLOW:
        return predicted
    return replace(
        predicted, goodput_bytes_s=0.0, steady_bytes_s=0.0, bound="", cannot_say=TOO_WIDE
    )


def _last_packet_lost(predicted: Transfer, rtt_s: float) -> Transfer:
    """The same download if a timeout repairs its last packet: two round trips later at most, after
    the least timeout."""
    stall_s = LEAST_RTO_US / 1e6 + 2 * rtt_s
    took_s = predicted.took_s + stall_s
    return replace(
        predicted,
        took_s=took_s,
        goodput_bytes_s=predicted.goodput_bytes_s * predicted.took_s / took_s,
        steady_bytes_s=predicted.steady_bytes_s * max(0.0, 1 - stall_s / (STEADY_SHARE * took_s)),
    )


def shown(flow: Flow, transfer_bytes: int) -> Interval | None:
    """The interval of a prediction if it is wide enough to be shown. What the link limits does not
    depend on single packets, and is not simulated again."""
    predicted = transfer(flow, transfer_bytes)
    if predicted.bound == LINK and not (flow.loss_pct or flow.pause_ms or predicted.overflows):
        return None
    wide = interval(flow, transfer_bytes)
    return wide if wide is not None and wide.width > SHOWN_WIDTH else None


def _interval(
    transfers: tuple[Transfer, ...], ends: Callable[[list[float]], tuple[float, float]]
) -> Interval:
    margin = OVERFLOW_MARGIN if any(result.overflows for result in transfers) else 0.0
    (low, high), (least, most) = (
        ends([getattr(result, name) for result in transfers if not result.cannot_say])
        for name in ("steady_bytes_s", "goodput_bytes_s")
    )
    return Interval(
        (low * (1 - margin), high * (1 + margin)), (least * (1 - margin), most * (1 + margin))
    )


def _most(values: list[float]) -> tuple[float, float]:
    """The range of 95 % of the values; of few values almost that of all."""
    cuts = quantiles(values, n=CUTS, method="inclusive")
    return cuts[0], cuts[-1]
