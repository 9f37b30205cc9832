"""The right answers of the exercises about queues, without runs."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from labs.drive.parameters.declare import Scalar
from labs.experiments.queues.exercises import EXERCISES
from labs.read.runs.run import Run


class NoRuns:
    """The evidence of somebody who has neither runs nor recorded data."""

    drawn: Mapping[str, Scalar] = {}
    kernel = "6.1"

    def run(self, condition: str, **parameters: Scalar) -> Run | None:
        return None


# 100 Mbit/s over 60 ms are 750,000 bytes; 3/7 of that for CUBIC; 1000 frames of 1514 bytes at
# 50 Mbit/s; the window runs from 0.625 to 1.25 BDPs: (0.609 / 2 + 0.28125) / (0.375 + 0.28125).
BY_HAND = {
    "reno_buffer_kib": 732.4,
    "cubic_buffer_kib": 313.9,
    "fifo_delay_ms": 242.2,
    "quarter_pct": 89.3,
}


@pytest.mark.parametrize("one", EXERCISES, ids=lambda one: one.name)
def test_expected_is_the_value_by_hand(one: object) -> None:
    found = one.expected(NoRuns())  # type: ignore[attr-defined]
    right = BY_HAND[one.name]  # type: ignore[attr-defined]
    assert found.low <= right <= found.high
    assert all(not found.low <= float(wrong.value) <= found.high for wrong in found.mistakes)
