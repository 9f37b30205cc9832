"""Queues shorter than the BDP: predictions are within 5 %, within the interval, or absent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.model import flow_of
from benchmarks.points import Point, read
from labs.read.theory.bulk import LEAST_QUEUE_PACKETS, TOO_SHORT, transfer
from labs.read.theory.bulk_interval import Interval, interval, shown

MEASURED: dict[str, list[float]] = json.loads(
    (Path(__file__).parents[3] / "fixtures" / "theory" / "queues.json").read_text()
)
"""Goodput in steady state and over all of the points of the set `queues`, in bytes per second, as
`make model` measured them on the virtual kernels."""
GOAL = 0.05
POINTS = read("queues")


def holds(low: float, high: float, measured: float) -> bool:
    return low <= measured <= high


def wide(point: Point) -> Interval | None:
    return interval(flow_of(point), point.transfer_bytes)


@pytest.mark.parametrize("point", POINTS, ids=lambda one: f"{one.name}-{one.kernel}")
def test_transfer_through_a_short_queue(point: Point) -> None:
    found, between = transfer(flow_of(point), point.transfer_bytes), wide(point)
    steady, goodput = MEASURED[point.name]
    if found.cannot_say:
        assert (found.cannot_say, found.steady_bytes_s, between) == (TOO_SHORT, 0, None)
        assert point.queue_packets < LEAST_QUEUE_PACKETS
        return
    assert between is not None
    for predicted, ends, measured in (
        (found.steady_bytes_s, between.steady_bytes_s, steady),
        (found.goodput_bytes_s, between.goodput_bytes_s, goodput),
    ):
        assert holds(*ends, measured) or predicted == pytest.approx(measured, rel=GOAL)


def test_interval_of_a_queue_that_overflows_is_shown() -> None:
    """It is at least 5 % wide at either end, and most points have one."""
    overflows = [one for one in POINTS if transfer(flow_of(one), one.transfer_bytes).overflows]
    assert len(overflows) > len(POINTS) / 3
    for one in overflows:
        found, between = transfer(flow_of(one), one.transfer_bytes), wide(one)
        assert between is not None and between == shown(flow_of(one), one.transfer_bytes)
        low, high = between.steady_bytes_s
        assert low <= 0.95 * found.steady_bytes_s < 1.05 * found.steady_bytes_s <= high
        assert high < 2 * low
