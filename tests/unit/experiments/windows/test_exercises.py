"""The right answers of the exercises about receive buffers, with runs and without any."""

from __future__ import annotations

from labs.drive.parameters.declare import Scalar
from labs.experiments.windows.exercises import CHECKED_S, DROPPED, EXERCISES, counted_drops
from labs.read.runs.run import Run
from labs.read.theory.receive_window import Setup, accepted
from labs.read.theory.receive_window_kernels import rules
from tests.no_runs import NoRuns
from tests.real_runs import windows_run, with_condition


class OwnRuns(NoRuns):
    """The evidence of somebody who has the run of the article."""

    def run(self, condition: str, **parameters: Scalar) -> Run | None:
        return windows_run(condition)


def test_expected_is_the_value_of_the_kernel_rules() -> None:
    """The other ways of the notebook: the packets one by one, and the simulated receiver."""
    used, packets = 0, 0
    while used <= 65_536:
        used, packets = used + 2_304, packets + 1
    setup = Setup(
        rules=rules("6.1"),
        listen_rcvbuf_bytes=2 * 24_576,
        listen_locked=True,
        mss_bytes=1024,
        adv_win_scale=3,
    )
    right = {exercise.name: exercise.expected(OwnRuns()).low for exercise in EXERCISES}
    assert (packets, accepted(setup).rcv_wnd) == (
        right["accepted_packets"],
        right["scaled_window_bytes"],
    )


def test_counted_drops_are_those_of_the_first_packet_in_a_run_that_is_long_enough() -> None:
    """In ten seconds: the drop, and retransmissions 1.31, 2.55 and 5.05 s after it."""
    short = windows_run(DROPPED)
    assert counted_drops(short) == 0
    assert counted_drops(long_enough(short)) == 4
    assert counted_drops(long_enough(windows_run("article-scale1"))) == 0


def test_expected_drops_name_the_run_that_shows_them() -> None:
    (drops,) = [exercise for exercise in EXERCISES if exercise.name == "dropped_packets"]
    run = windows_run(DROPPED)
    assert run.name not in drops.expected(OwnRuns()).checked
    evidence = OwnRuns()
    evidence.run = lambda condition, **parameters: long_enough(run)  # type: ignore[method-assign]
    assert run.name in drops.expected(evidence).checked


def long_enough(run: Run) -> Run:
    """The run as if it had lasted as long as the question."""
    return with_condition(run, settings={"duration_s": CHECKED_S})
