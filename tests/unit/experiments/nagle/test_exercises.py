"""The exercises about Nagle's algorithm with recorded runs."""

from __future__ import annotations

import pytest

from labs.catalog import find
from labs.grading.grade_sheet import RunEvidence
from labs.read.exercises.exercise import of_lab
from labs.read.exercises.graded_answer import grade


@pytest.mark.parametrize(("name", "mean_ms"), [("far_on_ms", 26.1), ("far_quickack_ms", 46.0)])
def test_mean_of_the_charts_has_a_hint(name: str, mean_ms: float) -> None:
    """The recorded means at 20 ms; one request of ten is the first on its connection."""
    (exercise,) = [exercise for exercise in of_lab(find("nagle"))[0] if exercise.name == name]
    expected = exercise.expected(RunEvidence("6.1", find("nagle")))
    assert grade(exercise, mean_ms, expected).hint.startswith("This is the mean")
