"""What the launcher does with the results and the errors of an engine's runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from labs.catalog import find
from labs.errors import Damaged, LabError, RunFailed
from labs.experiments.nagle.conditions import Parameters as Nagle
from labs.launch.launch import perform
from labs.launch.plan import Planned, plan
from labs.launch.wanted import (
    Cancelled,
    Engine,
    Event,
    Job,
    Lost,
    Opened,
    Outcome,
    Performed,
    Say,
    Tell,
    Wanted,
    tell_nobody,
)


class Small:
    """An engine of one thread, whose runs call `work`."""

    places = 1

    def __init__(self, work: Callable[[Job], object]) -> None:
        self.work = work

    def check(self) -> None:
        """Do nothing."""

    def perform(self, job: Job, say: Say, cancelled: Cancelled) -> Outcome:
        self.work(job)
        return Performed()


@pytest.fixture(scope="module")
def planned() -> tuple[Planned, ...]:
    return plan(
        find("nagle"), Nagle(testbed="namespaces", size="full", only="off,on,quickack,off-no-k")
    )


@pytest.fixture
def engine() -> Small:
    return Small(lambda job: None)


def performed(
    planned: Sequence[Planned],
    engine: Engine,
    runs: Path,
    tell: Tell = tell_nobody,
    *,
    keep_going: bool = True,
) -> dict[str, LabError]:
    return perform(planned, Opened(runs), Wanted(tell=tell, engine=engine, keep_going=keep_going))


def test_perform_does_not_blame_a_run_for_an_index_that_cannot_be_written(
    planned: tuple[Planned, ...], engine: Small, tmp_path: Path
) -> None:
    events: list[Event] = []

    def tell(title: str, event: Event) -> None:
        events.append(event)
        if event == Performed():
            raise Damaged("the index is locked")

    with pytest.raises(Damaged, match="the index is locked"):
        performed(planned, engine, tmp_path, tell)
    assert events == [Performed()]


def test_perform_reports_the_failure_that_ends_it(
    planned: tuple[Planned, ...], engine: Small, tmp_path: Path
) -> None:
    def fail(job: Job) -> object:
        raise RunFailed("broken")

    engine.work = fail
    told: list[tuple[str, Event]] = []
    with pytest.raises(RunFailed, match="broken"):
        performed(
            planned,
            engine,
            tmp_path,
            lambda title, event: told.append((title, event)),
            keep_going=False,
        )
    assert [(title, str(event)) for title, event in told] == [(planned[0].title, "failed: broken")]


@pytest.mark.timeout(60)
def test_perform_cancels_runs_when_their_engine_is_lost(
    planned: tuple[Planned, ...], engine: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(job: Job, say: Say, cancelled: Cancelled) -> Outcome:
        while not cancelled():
            time.sleep(0.01)
        raise KeyboardInterrupt

    def check() -> None:
        raise Lost("the connection was lost")

    engine.perform = wait  # type: ignore[method-assign]
    engine.check = check  # type: ignore[method-assign]
    events: list[Event] = []
    with pytest.raises(Lost):
        performed(planned, engine, tmp_path, lambda title, event: events.append(event))
    assert events == []


def test_perform_ends_with_a_lost_engine_though_it_keeps_going(
    planned: tuple[Planned, ...], engine: Small, tmp_path: Path
) -> None:
    def lose(job: Job) -> object:
        raise Lost("the connection was lost")

    engine.work = lose
    events: list[Event] = []
    with pytest.raises(Lost):
        performed(planned, engine, tmp_path, lambda title, event: events.append(event))
    assert events == []


def test_perform_gives_a_refused_fork_as_the_failure_of_a_run(
    planned: tuple[Planned, ...], engine: Small, tmp_path: Path
) -> None:
    """Each run fails, and the batch continues."""

    def fork(job: Job) -> object:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    engine.work = fork
    failed = performed(planned, engine, tmp_path)
    assert {type(error) for error in failed.values()} == {RunFailed}
    assert set(failed) == {run.name for run in planned}
