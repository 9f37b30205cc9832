"""The predicted mean of a download, which includes slow start."""

from __future__ import annotations

import pytest

from labs.experiments.buffers.prediction import expected, expected_mean_bytes_s
from labs.read.runs.run import Run
from labs.read.theory.bounds import LINE
from tests.real_runs import real, real_study

SIZE = 2 << 20


def on_kernel(run: Run, release: str) -> Run:
    """The run as if its kernel had reported another release."""
    return Run(run.path, run.seal, {**run.said, "kernel": {"release": release, "hz": 250}})


@pytest.mark.parametrize(("release", "known"), [("5.10.262", False), ("5.15.200", True)])
def test_expected_mean_of_a_full_link_needs_a_kernel_with_right_rounds(
    release: str, known: bool
) -> None:
    """5.10 ends slow start at a congestion window of 8,336 segments in the condition `both`, later
    kernels at 18,544: measured on 1000 Mbit/s and 200 ms, 87.8 against 93.7 MiB/s."""
    run = on_kernel(real("captured"), release)
    theory = expected(run)
    assert theory is not None and theory.bound == LINE
    assert (expected_mean_bytes_s(run, SIZE) is not None) is known


def test_expected_mean_is_known_where_a_buffer_is_the_limit() -> None:
    run = on_kernel(real_study("6.1").run("sweep-24k"), "5.10.262")
    theory = expected(run)
    assert theory is not None and theory.bound != LINE
    assert expected_mean_bytes_s(run, SIZE) is not None
