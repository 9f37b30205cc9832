"""The right answers of the exercises about sharing a link, without runs."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from labs.drive.parameters.declare import Scalar
from labs.experiments.sharing.exercises import EXERCISES
from labs.read.runs.run import Run


class NoRuns:
    """The evidence of somebody who has neither runs nor recorded data."""

    drawn: Mapping[str, Scalar] = {}
    kernel = "6.1"

    def run(self, condition: str, **parameters: Scalar) -> Run | None:
        return None


# A queue of one BDP holds about half of its 40 ms on average, so the RTTs are some 62 and 102 ms,
# and the squares of their ratio 1 to 2.7; 1/sqrt(25); 100 / (3 * 66); 1/2 + 1/16, less 4 packets of
# 264 and less ProbeRTT, 0.56 s of 10.
BY_HAND = {
    "far_reno_pct": 27.0,
    "crowd_bdp": 0.2,
    "jain_index": 0.505,
    "bbr_deep_pct": (0.5 + 1 / 16 + 4 / 264) * 0.944 * 100,
}


@pytest.mark.parametrize("one", EXERCISES, ids=lambda one: one.name)
def test_expected_is_the_value_by_hand(one: object) -> None:
    found = one.expected(NoRuns())  # type: ignore[attr-defined]
    right = BY_HAND[one.name]  # type: ignore[attr-defined]
    assert found.low <= right <= found.high
    assert all(not found.low <= float(wrong.value) <= found.high for wrong in found.mistakes)
