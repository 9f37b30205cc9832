"""The right answers of the exercises about the network stack follow the recorded loops."""

from __future__ import annotations

import pytest

from labs.catalog import find
from labs.experiments.stack.conditions import Parameters as Stack
from labs.experiments.stack.results import loops, server
from labs.read.exercises.exercise import Evidence, of_lab
from labs.studies.study import study


def test_expected_is_bounded_by_measurement() -> None:
    """The recorded loops: their capacity and median decide the ranges."""
    conditions = "closed,open-120"
    p = Stack(size="full", testbed="recorded", duration_s=3, work_us=1000, only=conditions)
    repeated = study(p).repeated
    measured = server(repeated)
    assert measured is not None
    right = {
        exercise.name: exercise.expected(Evidence("6.1")) for exercise in of_lab(find("stack"))[0]
    }
    share, wait = right["highest_rate_s"].low / 500, right["closed_loop_ms"].low / 32
    assert 0.995 * measured.capacity_per_s / measured.limit_per_s == pytest.approx(share, abs=0.002)
    closed_us, beyond_us = loops(repeated)["p50_us"]
    assert 0.995 * closed_us / measured.closed_loop_us == pytest.approx(wait, abs=0.002)
    # The median is that of the request in the middle: half of the last one's.
    assert right["last_wait_ms"].high == pytest.approx(2 * beyond_us / 1000, rel=0.02)
