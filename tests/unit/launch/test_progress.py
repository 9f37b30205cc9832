"""The progress of runs in a notebook and on a terminal."""

from __future__ import annotations

import pytest

from labs.errors import Missing
from labs.launch.progress import Bar
from labs.launch.wanted import Event, Exists, Failed, Line, Performed, Waiting


def test_bar_is_shown_for_runs_that_are_performed(capsys: pytest.CaptureFixture[str]) -> None:
    with Bar("buffers", 2) as bar:
        bar.tell("default", Exists())
        assert capsys.readouterr().err == ""
        bar.tell("both", Line("3 s"))
        assert bar.text().endswith("1 of 2 runs | both: 3 s")
        bar.tell("both", Performed())
    printed = capsys.readouterr().err
    assert printed.startswith("buffers: 2 runs; 1 exist, 1 to perform\n")
    assert printed.endswith("2 of 2 runs\n")


def test_bar_prints_the_plan_of_a_study_of_several_groups(
    capsys: pytest.CaptureFixture[str],
) -> None:
    groups = ["Sweep", "Sweep", "Memory pressure"]
    with Bar("buffers", 3, groups) as bar:
        bar.tell("a", Line("1 s"))
    assert capsys.readouterr().err == (
        "buffers: 3 runs; 0 exist, 3 to perform. Conditions: 2 Sweep, 1 Memory pressure\n"
    )


def test_bar_says_how_long_the_rest_takes() -> None:
    """By the runs that were performed: existing ones take no time."""
    now_s = [0.0]
    with Bar("buffers", 4, clock=lambda: now_s[0]) as bar:
        bar.tell("a", Exists())
        bar.tell("b", Line("1 s"))
        assert bar.left() == ""
        bar.count("b", Performed())
        now_s[0] = 20.0
        assert bar.left() == "about 40 s left"  # two more, of 20 s each
        now_s[0] = 300.0
        assert bar.left() == "about 10 min left"


def test_bar_says_at_once_what_a_run_waits_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal the bar itself is shown only when a run is ready."""
    with Bar("buffers", 1) as bar:
        bar.tell("default", Line("3 s"))
        assert capsys.readouterr().err == "buffers: 1 run; 0 exist, 1 to perform\n"
        bar.tell("default", Waiting("for a slot"))
        assert capsys.readouterr().err == "buffers default: waiting for a slot\n"


def test_bar_counts_failed_runs_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """A failed run is over, but was not made."""
    with Bar("buffers", 3) as bar:
        bar.tell("a", Performed())
        bar.tell("b", Failed(Missing("no kernel")))
        assert "2 of 3 runs (1 failed)" in bar.text()


def test_bar_cuts_no_line_in_a_word() -> None:
    line = Waiting("for a slot: at most 2 (one per CPU); held by process 4711 (both, for 3 s)")
    bar = Bar("buffers", 3)
    running: dict[str, Event] = {"default": line, "a" * 80: Line("1 s"), "both": Line("4 s")}
    for title, event in running.items():
        bar.count(title, event)
    assert bar.text().endswith("0 of 3 runs | default: waiting for a slot | both: 4 s")


def test_bar_is_not_shown_if_all_runs_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with Bar("buffers", 1) as bar:
        bar.tell("default", Exists())
    assert capsys.readouterr() == ("", "")


def test_bar_counts_repetitions_beyond_the_planned_ones() -> None:
    bar = Bar("buffers", 1)
    bar.count("both 1", Performed())
    bar.count("both 2", Line("3 s"))
    assert bar.text().endswith("1 of 2 runs | about 0 s left | both 2: 3 s")
