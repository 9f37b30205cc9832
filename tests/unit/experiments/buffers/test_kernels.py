"""What differs between kernels, on real runs of two."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labs.experiments.buffers.conditions import SENDER_RAISED
from labs.experiments.buffers.figures import (
    defaults_by_kernel,
    grown_by_kernel,
    slow_start_by_kernel,
)
from labs.studies.study import Study
from tests.real_runs import real_study


@pytest.fixture
def studies() -> tuple[Study, ...]:
    """The newer kernel first, and one without runs."""
    new, old = real_study("6.12"), real_study("6.1")
    return new, old, replace(old, runs=(), every=(), lacks="not built")


def test_defaults_by_kernel_are_those_before_a_condition_sets_any(
    studies: tuple[Study, ...],
) -> None:
    table = defaults_by_kernel(*studies)
    assert table["Linux"].tolist() == ["6.1.192", "6.12.117"]
    assert set(table["tcp_rmem, maximum"]) == {6_291_456}
    assert set(table["tcp_wmem, maximum"]) == {4_194_304}
    assert set(table["rmem_max"]) == set(table["wmem_max"]) == {212_992}
    assert set(table["tcp_limit_output_bytes"]) == {1_048_576}


def test_grown_by_kernel_has_the_largest_sizes_of_each_run(studies: tuple[Study, ...]) -> None:
    """The receive buffer of the older kernel had to be larger for the same window."""
    table = grown_by_kernel(*studies, condition=SENDER_RAISED)
    old, new = table["Receive buffer"]
    assert old > 1.5 * new > 1.5 * 131_072
    assert (table["Largest window"] == table["Window / buffer"] * table["Receive buffer"]).all()
    assert set(table["Send buffer"]) == {52_428_800}


def test_slow_start_by_kernel_names_the_reason_and_the_window(studies: tuple[Study, ...]) -> None:
    table = slow_start_by_kernel(*studies)
    assert set(table["Slow start ended by"]) <= {"a long train of ACKs", "a longer RTT"}
    assert (table["Congestion window (segments)"] > 10).all()
    assert slow_start_by_kernel(studies[-1]).empty
