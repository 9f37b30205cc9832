"""The progress of a batch, as counts and as a line."""

from __future__ import annotations

import io

from labs.batches.progress import Progress
from labs.errors import RunFailed
from labs.launch.wanted import Exists, Failed, Line, Performed, Waiting


class Clock:
    """A clock that stands until it is told otherwise."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_text_counts_runs_by_how_they_ended_and_computes_what_is_left() -> None:
    """Two of four runs took 10 s each, so the remaining one takes 10 s."""
    clock = Clock()
    progress = Progress(4, stream=io.StringIO(), clock=clock)
    progress.run("a", Exists())
    clock.now_s = 10.0
    progress.run("b", Performed())
    clock.now_s = 20.0
    progress.run("c", Failed(RunFailed("no kernel")))
    text = progress.text()
    assert text.startswith("runs 3 of 4 (1 existed, 1 failed)")
    assert "about 10 s left" in text


def test_text_names_first_what_waits() -> None:
    progress = Progress(3, stream=io.StringIO(), clock=Clock())
    progress.run("busy", Line("3 s"))
    progress.run("idle", Waiting("for a slot"))
    text = progress.text()
    assert "idle" in text and "busy" not in text


def test_notebooks_are_counted_after_the_runs() -> None:
    clock = Clock()
    progress = Progress(1, stream=io.StringIO(), clock=clock)
    progress.run("a", Performed())
    progress.notebooks(3)
    clock.now_s = 5.0
    progress.notebook(1, None)
    progress.notebook(2, RunFailed("a cell stopped"))
    text = progress.text()
    assert "notebooks 2 of 3 (1 stopped)" in text
    assert "about 2 s left" in text  # 5 s for two, one is left


def test_lines_without_a_terminal_are_few_and_name_each_failure() -> None:
    """A thousand lines at one moment are one line of progress, and the last one."""
    stream = io.StringIO()
    progress = Progress(1001, stream=stream, clock=Clock())
    for number in range(1000):
        progress.run(str(number), Performed())
    progress.run("last", Failed(RunFailed("the link")))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[1].startswith("last: failed")
    assert lines[2].startswith("runs 1001 of 1001")
