"""The right answers of the exercises about the network stack follow the recorded loops."""

from __future__ import annotations

import pytest

from labs.experiments.stack.conditions import Parameters as Stack
from labs.experiments.stack.exercises import EXERCISES, MEASURED_SHARE, MEASURED_WAIT
from labs.experiments.stack.results import loops, server
from labs.studies.study import study
from tests.no_runs import NoRuns


def test_expected_is_bounded_by_measurement() -> None:
    """The recorded loops: their capacity and median decide the ranges."""
    conditions = "closed,open-120"
    p = Stack(size="full", testbed="recorded", duration_s=3, work_us=1000, only=conditions)
    repeated = study(p).repeated
    measured = server(repeated)
    assert measured is not None
    assert measured.capacity_per_s / measured.limit_per_s == pytest.approx(
        MEASURED_SHARE, abs=0.002
    )
    closed_us, beyond_us = loops(repeated)["p50_us"]
    assert closed_us / measured.closed_loop_us == pytest.approx(MEASURED_WAIT, abs=0.002)
    (last,) = (exercise for exercise in EXERCISES if exercise.name == "last_wait_ms")
    # The median is that of the request in the middle: half of the last one's.
    assert last.expected(NoRuns()).high == pytest.approx(2 * beyond_us / 1000, rel=0.02)
