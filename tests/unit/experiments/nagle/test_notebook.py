"""What notebook 03 shows besides its figures, from recorded runs."""

from __future__ import annotations

import pytest

from labs.experiments.nagle.conditions import Parameters as Nagle
from labs.experiments.nagle.notebook import means
from labs.studies.study import study
from tests.real_runs import recorded_nagle

FOUR = ("off", "quickack", "on", "on-quickack")


def test_means_without_delay_lack_the_stall_of_the_first_requests() -> None:
    """One of ten requests on a connection does not stall: 44 ms - 44 ms / 10."""
    table = means(recorded_nagle(), *FOUR).set_index("Condition")
    assert table["First requests (ms)"].tolist() == [-4.4, 0, 0, 0]
    assert table["Predicted mean (ms)"]["off"] == 39.6
    assert table["Measured mean (ms)"]["off"] < table["Typical request (ms)"]["off"]


def test_means_over_a_delay_are_higher_than_a_typical_request() -> None:
    """Two RTTs with one connection of a hundred, for 1000 requests: 40 ms / 10."""
    table = means(study(Nagle(testbed="recorded", delay_ms=20)), *FOUR).set_index("Condition")
    assert table["First requests (ms)"].tolist() == [-2.4, 2, 2, 2]
    assert table["Start of ab (ms)"].tolist() == [4, 4, 4, 4]
    assert (table["Measured mean (ms)"] > table["Typical request (ms)"]).all()
    assert table["Measured mean (ms)"].tolist() == pytest.approx(
        table["Predicted mean (ms)"].tolist(), abs=0.5
    )
