"""The right answers of the exercises about buffers that depend on the kernel or on runs."""

from __future__ import annotations

from labs.catalog import find
from labs.grading.grade_sheet import RunEvidence
from labs.read.exercises.exercise import Evidence, of_lab

BY_NAME = {exercise.name: exercise for exercise in of_lab(find("buffers"))[0]}


def test_expected_of_another_kernel_is_another_buffer() -> None:
    buffer = BY_NAME["buffer_mib"]
    assert buffer.expected(Evidence("6.12")).high < buffer.expected(Evidence("6.1")).low


def test_longest_rtt_is_between_the_runs_that_show_it() -> None:
    expected = BY_NAME["longest_rtt_ms"].expected(RunEvidence("6.1", find("buffers")))
    assert 22.0 <= expected.low < expected.high <= 26.0
    assert "at 22 ms 100 %" in expected.checked and "at 26 ms 90 %" in expected.checked
