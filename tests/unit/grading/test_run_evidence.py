"""The runs that answers are checked against: the recorded ones."""

from __future__ import annotations

from labs.catalog import find
from labs.grading.run_evidence import RunEvidence

BUFFERS = find("buffers")


def test_run_has_the_parameters_that_were_requested() -> None:
    run = RunEvidence("6.1", BUFFERS).run("default", delay_ms=22.0)
    assert run is not None
    assert (run.condition, run.link.asked.delay_ms) == ("default", 22.0)
    assert run.kernel.release.startswith("6.1.")


def test_run_that_is_not_recorded_is_none() -> None:
    assert RunEvidence("6.1", BUFFERS).run("default", delay_ms=23.0) is None
