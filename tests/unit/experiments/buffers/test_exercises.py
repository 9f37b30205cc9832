"""The right answers of the exercises about buffers, with runs and without any."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from labs.catalog import find
from labs.drive.parameters.declare import Scalar
from labs.experiments.buffers.exercises import EXERCISES, LIMITS
from labs.grading.run_evidence import RunEvidence
from labs.read.exercises.exercise import Exercise
from labs.read.runs.run import Run


class NoRuns:
    """The evidence of somebody who has neither runs nor recorded data."""

    drawn: Mapping[str, Scalar] = {}

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel

    def run(self, condition: str, **parameters: Scalar) -> Run | None:
        return None


# The article's own figures where it has one; else by hand from the rate, the delay and the share.
BY_HAND = {
    "bdp_mib": 125e6 * 0.022 / 2**20,
    "longest_rtt_ms": 24.0,
    "httping_ms": 404.2,
    "buffer_mib": 50e6 / 2**20,
    "used_pct": 100 * 10 / 210,
    "scaled_mib_s": 0.75 * 25e6 / 0.2 / 2**20,
    "granted_kib": 256.0,
    "new_window_mib": 0.75 * 32,
    "granted_6_1_kib": 2 * 208.0,
    "granted_7_2_kib": 2048.0,
    "lossy_mib_s": 1448 / 0.04 * 1.31 / 0.001**0.5 / 2**20,
    "lowest_rate_mbit": 13.4 * 2**20 * 8 / 1e6 * 1514 / 1448,
}


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda one: one.name)
def test_expected_contains_the_value_by_hand(exercise: Exercise) -> None:
    for evidence in (NoRuns("6.1"), RunEvidence(find("buffers"), "6.1")):
        found = exercise.expected(evidence)
        if exercise.choices:
            assert exercise.choices == tuple(LIMITS.values())
            assert found.choice in exercise.choices
        else:
            assert found.low < BY_HAND[exercise.name] < found.high
            # losses are random: the draws themselves lie up to 1.44 apart, 10 % more on each side
            spread = 1.44 * 1.1 / 0.9 if exercise.name == "lossy_mib_s" else 1.12
            assert found.high / found.low < spread


# Each definition that the notebooks use: the BDP at the rate of the link or of the payload (1448 of
# 1514 bytes), the time or the rate at which what the buffers admit equals it.
ADMITTED_BYTES = 13.54 * 2**20 * 0.2  # the prediction that notebook 00 prints for `default`
READINGS = {
    "bdp_mib": (125e6 * 0.022 / 2**20, 125e6 * 1448 / 1514 * 0.022 / 2**20),
    "longest_rtt_ms": (
        1e3 * ADMITTED_BYTES / 125e6,
        1e3 * ADMITTED_BYTES / (125e6 * 1448 / 1514),
        22.72,
    ),
    "httping_ms": (400.0, 400.2),
    "buffer_mib": (50e6 / 2**20, 2 * 125e6 * 0.2 * 1448 / 1514 / 2**20),
    "used_pct": (100 * 10 / 210, 100 * 10 / 210.4),
    "scaled_mib_s": (0.75 * 25e6 / 0.2 / 2**20,),
    "lossy_mib_s": (
        1448 / 0.04 * 1.31 / 0.001**0.5 / 2**20,
        1448 / 0.04 * 1.22 / 0.001**0.5 / 2**20,
    ),
    "granted_kib": (256.0,),
    "new_window_mib": (24.0, 32 * 0.749),
    "granted_6_1_kib": (2 * 212992 / 1024,),
    "granted_7_2_kib": (2048.0,),
    "lowest_rate_mbit": (8e-6 * ADMITTED_BYTES / 0.2, 8e-6 * ADMITTED_BYTES / 0.2 * 1514 / 1448),
}


@pytest.mark.parametrize(
    "exercise", [one for one in EXERCISES if not one.choices], ids=lambda one: one.name
)
def test_expected_contains_every_reading(exercise: Exercise) -> None:
    """With recorded runs and with none."""
    for evidence in (NoRuns("6.1"), RunEvidence(find("buffers"), "6.1")):
        found = exercise.expected(evidence)
        for reading in READINGS[exercise.name]:
            assert found.low <= reading <= found.high, (reading, found)


def test_expected_of_another_kernel_is_another_buffer() -> None:
    (one,) = [found for found in EXERCISES if found.name == "buffer_mib"]
    assert one.expected(NoRuns("6.12")).high < one.expected(NoRuns("6.1")).low


def test_longest_rtt_is_between_the_runs_that_show_it() -> None:
    (one,) = [found for found in EXERCISES if found.name == "longest_rtt_ms"]
    found = one.expected(RunEvidence(find("buffers"), "6.1"))
    assert 22.0 <= found.low < found.high <= 26.0
    assert "at 22 ms 100 %" in found.checked and "at 26 ms 90 %" in found.checked


def test_no_mistake_is_a_right_answer() -> None:
    for kernel in ("6.1", "6.12"):
        for one in EXERCISES:
            found = one.expected(NoRuns(kernel))
            for mistake in found.mistakes:
                assert not (
                    isinstance(mistake.value, float) and found.low <= mistake.value <= found.high
                ), (kernel, one.name, mistake)
