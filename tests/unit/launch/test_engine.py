"""What the launcher does with the results and the errors of an engine's runs."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from labs.catalog import find
from labs.errors import Damaged, LabError, RunFailed
from labs.experiments.nagle.conditions import Parameters as Nagle
from labs.launch import launch
from labs.launch.engine import Engine, Job, Lost, Say, Threads
from labs.launch.launch import Progress, perform
from labs.launch.make import Opened
from labs.launch.plan import Planned, plan
from labs.launch.progress import FAILED, MADE


class Result:
    """A return value whose life can be observed."""


class Small:
    """An engine of one thread, whose runs call `work`."""

    def __init__(self, work: Callable[[Job], object]) -> None:
        self.executor = ThreadPoolExecutor(1)
        self.others: dict[str, str] = {}
        self.work = work

    def prepare(self, jobs: Sequence[Job]) -> None:
        """Do nothing."""

    def check(self) -> None:
        """Do nothing."""

    def call(self, job: Job, say: Say) -> tuple[Callable[[Job], object], tuple[Job]]:
        return self.work, (job,)

    def accept(self, job: Job, done: Future[object]) -> str:
        done.result()
        return MADE


@pytest.fixture(scope="module")
def planned() -> tuple[Planned, ...]:
    return plan(
        find("nagle"), Nagle(testbed="namespaces", size="full", only="off,on,quickack,off-no-k")
    )


@pytest.fixture
def engine() -> Iterator[Small]:
    made = Small(lambda job: Result())
    with made.executor:
        yield made


def performed(
    planned: Sequence[Planned],
    engine: Engine,
    runs: Path,
    tell: Progress = lambda title, line: None,
    *,
    keep_going: bool = True,
) -> dict[str, LabError]:
    return perform(planned, Opened(runs), tell=tell, engine=engine, keep_going=keep_going)


def test_perform_releases_each_result_before_the_next(
    planned: tuple[Planned, ...], engine: Small, tmp_path: Path
) -> None:
    given: list[weakref.ref[object]] = []
    alive: list[int] = []

    def accept(job: Job, done: Future[object]) -> str:
        alive.append(sum(reference() is not None for reference in given))
        given.append(weakref.ref(done.result()))
        if len(given) == 1:
            raise Damaged("an error whose traceback has the result")
        return MADE

    engine.accept = accept  # type: ignore[method-assign]
    assert len(performed(planned, engine, tmp_path)) == 1
    assert alive == [0] * len(planned)


def test_perform_does_not_blame_a_run_for_an_index_that_cannot_be_written(
    planned: tuple[Planned, ...], engine: Small, tmp_path: Path
) -> None:
    lines: list[str] = []

    def tell(title: str, line: str) -> None:
        lines.append(line)
        if line == MADE:
            raise Damaged("the index is locked")

    with pytest.raises(Damaged, match="the index is locked"):
        performed(planned, engine, tmp_path, tell)
    assert lines == [MADE]


def test_perform_reports_the_failure_that_ends_it(
    planned: tuple[Planned, ...], engine: Small, tmp_path: Path
) -> None:
    def fail(job: Job) -> object:
        raise RunFailed("broken")

    engine.work = fail
    told: list[tuple[str, str]] = []
    with pytest.raises(RunFailed, match="broken"):
        performed(
            planned,
            engine,
            tmp_path,
            lambda title, line: told.append((title, line)),
            keep_going=False,
        )
    assert told == [(planned[0].title, f"{FAILED}: broken")]


@pytest.mark.timeout(60)
def test_perform_ends_with_an_engine_whose_runs_never_return(
    planned: tuple[Planned, ...], engine: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A future that is never completed, as those of dask after a lost connection."""

    class Never(ThreadPoolExecutor):
        def submit(self, *_: object, **__: object) -> Future[object]:  # type: ignore[override]
            return Future()

    def check() -> None:
        raise Lost("the connection was lost")

    engine.executor = Never(1)
    engine.check = check  # type: ignore[method-assign]
    monkeypatch.setattr(launch, "CHECK_S", 0.01)
    lines: list[str] = []
    with pytest.raises(Lost):
        performed(planned, engine, tmp_path, lambda title, line: lines.append(line))
    assert lines == []


def test_perform_ends_with_a_lost_engine_though_it_keeps_going(
    planned: tuple[Planned, ...], engine: Small, tmp_path: Path
) -> None:
    def lose(job: Job) -> object:
        raise Lost("the connection was lost")

    engine.work = lose
    lines: list[str] = []
    with pytest.raises(Lost):
        performed(planned, engine, tmp_path, lambda title, line: lines.append(line))
    assert lines == []


def test_threads_accept_gives_a_refused_fork_as_the_failure_of_a_run(
    planned: tuple[Planned, ...], tmp_path: Path
) -> None:
    """Each run fails, and the batch continues."""

    class Refusing(Threads):
        def call(self, job: Job, say: Say) -> tuple[Callable[[], str], tuple[()]]:
            def fork() -> str:
                raise BlockingIOError(11, "Resource temporarily unavailable")

            return fork, ()

    with Refusing(1) as threads:
        failed = performed(planned, threads, tmp_path)
    assert {type(error) for error in failed.values()} == {RunFailed}
    assert set(failed) == {run.name for run in planned}
