"""The right answers of the exercises about the network stack, computed by hand."""

from __future__ import annotations

import pytest

from labs.catalog import find
from labs.experiments.stack.conditions import Parameters as Stack
from labs.experiments.stack.exercises import EXERCISES, MEASURED_SHARE, MEASURED_WAIT
from labs.experiments.stack.open_loop import loops, server
from labs.grading.run_evidence import RunEvidence
from labs.read.theory.queueing import capacity_per_s, closed_loop_us, evenly_spaced_us
from labs.studies.study import study

EVIDENCE = RunEvidence(find("stack"), "6.1")
# 1 s / 2 ms; 16 x 2 ms; 20 % of 3 s remain to be served; one request per connection; 9 us more
# than 180 us.
BY_HAND = {
    "highest_rate_s": 500.0,
    "closed_loop_ms": 32.0,
    "last_wait_ms": 600.0,
    "stopped_requests": 16.0,
    "wake_up_ratio": 1.05,
}


# With the capacity of the recorded loops, and from their table, scaled from 1 ms to 2 ms per
# request; with the formulas of the notebook's solution.
OTHER_WAYS = {
    "highest_rate_s": (486.0, 493.0, capacity_per_s(2000)),
    "closed_loop_ms": (16 / 486 * 1000, 30.8, closed_loop_us(16, 2000) / 1000),
    "last_wait_ms": (602.0, 3000 * (600 / 486 - 1), 700.0, evenly_spaced_us(600, 2000, 3) / 1000),
    "stopped_requests": (16.0,),
    "wake_up_ratio": ((180 + 34 - 25) / 180, 1 + 9 / 180, 1 + (33.56 - 24.56) / 180),
}


def test_expected_accepts_each_way_of_the_notebook() -> None:
    for one in EXERCISES:
        found = one.expected(EVIDENCE)
        for value in OTHER_WAYS[one.name]:
            assert found.low <= value <= found.high, (one.name, value)


def test_expected_is_bounded_by_measurement() -> None:
    """The recorded loops: their capacity and median decide the ranges."""
    conditions = "closed,open-120"
    p = Stack(size="full", testbed="recorded", duration_s=3, work_us=1000, only=conditions)
    repeated = study(p).repeated
    one = server(repeated)
    assert one is not None
    assert one.capacity_per_s / one.limit_per_s == pytest.approx(MEASURED_SHARE, abs=0.002)
    closed, beyond = loops(repeated)
    assert closed.p50_us / one.closed_loop_us == pytest.approx(MEASURED_WAIT, abs=0.002)
    (last,) = (each for each in EXERCISES if each.name == "last_wait_ms")
    # The median is that of the request in the middle: half of the last one's.
    assert last.expected(EVIDENCE).high == pytest.approx(2 * beyond.p50_us / 1000, rel=0.02)


def test_expected_is_the_value_by_hand() -> None:
    assert [one.name for one in EXERCISES] == list(BY_HAND)
    for one in EXERCISES:
        found = one.expected(EVIDENCE)
        assert found.low <= BY_HAND[one.name] <= found.high, one.name


def test_no_mistake_is_a_right_answer() -> None:
    for one in EXERCISES:
        found = one.expected(EVIDENCE)
        assert found.mistakes
        for mistake in found.mistakes:
            assert not found.low <= float(mistake.value) <= found.high, one.name
