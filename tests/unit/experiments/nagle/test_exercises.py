"""The right answers of the exercises about Nagle's algorithm, with runs and without any."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from labs.catalog import find
from labs.drive.parameters.declare import Scalar
from labs.experiments.nagle.exercises import EXERCISES, FIRST
from labs.grading.run_evidence import RunEvidence
from labs.read.exercises.exercise import Evidence
from labs.read.exercises.graded_answer import judge
from labs.read.runs.run import Run


class NoRuns:
    """The evidence of somebody who has neither runs nor recorded data."""

    drawn: Mapping[str, Scalar] = {}

    kernel = "6.1"

    def run(self, condition: str, **parameters: Scalar) -> Run | None:
        return None


# TCP_ATO_MIN is 40 ms (include/net/tcp.h), and a tick is 4 ms with HZ 250, 10 ms
# with HZ 100. Over 20 ms, the part
# that was held back takes one round trip more than a response that is sent at once.
BY_HAND = {
    "longest_wait_ms": (50.0,),
    "far_off_ms": (2 * 20 + 40.0, 2 * 20 + 44.0),
    "far_on_ms": (20.0,),
    "far_quickack_ms": (2 * 20.0,),
}


@pytest.mark.parametrize("evidence", [NoRuns(), RunEvidence(find("nagle"), "6.1")])
def test_expected_contains_the_values_by_hand(evidence: Evidence) -> None:
    for one in EXERCISES:
        found = one.expected(evidence)
        for value in BY_HAND[one.name]:
            assert found.low <= value <= found.high, one.name


@pytest.mark.parametrize(("name", "mean_ms"), [("far_on_ms", 26.1), ("far_quickack_ms", 46.0)])
def test_mean_of_the_charts_has_a_hint(name: str, mean_ms: float) -> None:
    """The recorded means at 20 ms; one request of ten is the first on its connection."""
    (one,) = [found for found in EXERCISES if found.name == name]
    graded = judge(one, mean_ms, one.expected(RunEvidence(find("nagle"), "6.1")))
    assert graded.hint == FIRST


def test_no_mistake_is_a_right_answer() -> None:
    for one in EXERCISES:
        found = one.expected(NoRuns())
        assert [
            mistake for mistake in found.mistakes if found.low <= float(mistake.value) <= found.high
        ] == []
