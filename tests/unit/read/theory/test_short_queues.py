"""Queues shorter than the BDP: predictions are within 5 %, within the interval, or absent."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.model import flow_of
from benchmarks.points import Point, read
from labs.experiments.buffers.results import of_client
from labs.read.theory.bulk import LEAST_QUEUE_PACKETS, TOO_SHORT, transfer
from labs.read.theory.bulk_flow import Flow
from labs.read.theory.bulk_interval import TOO_WIDE, Interval, decided, interval, shown

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


@pytest.mark.parametrize("point", POINTS, ids=lambda each: f"{each.name}-{each.kernel}")
def test_transfer_through_a_short_queue(point: Point) -> None:
    result, between = decided(flow_of(point), point.transfer_bytes), wide(point)
    steady, goodput = MEASURED[point.name]
    if result.cannot_say:
        assert result.steady_bytes_s == result.goodput_bytes_s == 0
        assert point.queue_packets < LEAST_QUEUE_PACKETS or result.cannot_say == TOO_WIDE
        return
    assert between is not None
    for predicted, ends, measured in (
        (result.steady_bytes_s, between.steady_bytes_s, steady),
        (result.goodput_bytes_s, between.goodput_bytes_s, goodput),
    ):
        assert holds(*ends, measured) or predicted == pytest.approx(measured, rel=GOAL)


def test_interval_has_the_loss_of_the_last_segment() -> None:
    """42.34 Mbit/s, 17.9 ms, a queue of 26 packets at a router, 6.1: the last segment of 5.7 MB was
    lost and repaired by a timeout. Over the last third 1.415 MB/s arrived, over all 1.646."""
    size = 5_684_145
    path = Flow(rate_mbit=42.34, rtt_ms=17.9, kernel="6.1", queue_packets=26, offloads=False)
    between = interval(replace(path, **of_client("discard", size, 65_536)), size)
    assert between is not None
    assert holds(*between.steady_bytes_s, 1.415e6) and holds(*between.goodput_bytes_s, 1.646e6)


def test_decided_is_silent_about_a_flow_with_two_states() -> None:
    """With segments of 524 bytes the queue of the sender may stay full of short packets, which
    carry 0.98 MB/s, or of long ones, which carry 3.3: single packets decide. 3.305 was measured."""
    path = Flow(rate_mbit=36.97, rtt_ms=45.995, kernel="7.2", queue_packets=54, mss_bytes=524)
    flow = replace(path, rcvbuf_bytes=830 << 10, write_bytes=8384)
    between = interval(flow, 6_000_000)
    assert between is not None
    assert decided(flow, 6_000_000).cannot_say == TOO_WIDE
    assert holds(*between.steady_bytes_s, 0.98e6) and holds(*between.steady_bytes_s, 3.305e6)


def test_interval_of_a_queue_that_overflows_is_shown() -> None:
    """It is at least 5 % wide at either end, and most points have one."""
    overflows = [each for each in POINTS if transfer(flow_of(each), each.transfer_bytes).overflows]
    assert len(overflows) > len(POINTS) / 3
    for each in overflows:
        result, between = transfer(flow_of(each), each.transfer_bytes), wide(each)
        assert between is not None and between == shown(flow_of(each), each.transfer_bytes)
        low, high = between.steady_bytes_s
        assert low <= 0.95 * result.steady_bytes_s < 1.05 * result.steady_bytes_s <= high


def test_decided_is_silent_about_a_queue_of_few_packets() -> None:
    path = Flow(rate_mbit=20, rtt_ms=40, kernel="6.1", offloads=False)
    result = [transfer(replace(path, queue_packets=each), 4_000_000) for each in (9, 10)]
    assert [each.cannot_say for each in result] == [TOO_SHORT, ""]
    assert [each.overflows for each in result] == [False, True]
