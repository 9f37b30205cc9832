"""The right answers of the exercises about the network stack, computed by hand."""

from __future__ import annotations

from labs.catalog import find
from labs.experiments.stack.exercises import EXERCISES
from labs.grading.run_evidence import RunEvidence

EVIDENCE = RunEvidence(find("stack"), "6.1", ())
# 1 s / 2 ms; 16 x 2 ms; 20 % of 3 s remain to be served; one request per connection; 9 us more
# than 180 us.
BY_HAND = {
    "highest_rate_s": 500.0,
    "closed_loop_ms": 32.0,
    "last_wait_ms": 600.0,
    "stopped_requests": 16.0,
    "wake_up_ratio": 1.05,
}


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
