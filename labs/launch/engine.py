"""Engines, which perform runs: by threads of this process, or any `concurrent.futures.Executor`.

An engine defines what is submitted to its executor for a run, and handles what is returned. The
launcher is the same for all engines (`labs.launch.launch.perform`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from labs.errors import RunFailed
from labs.launch import audit
from labs.launch.code_digest import Code
from labs.launch.make import Opened, make_once
from labs.launch.plan import Planned

Say = Callable[[str], None]
"""Receives a line about a run in progress. Raises KeyboardInterrupt to end the run."""


class Lost(RunFailed):
    """The engine can perform no further runs, which ends a batch even if other failures do not."""


@dataclass(frozen=True)
class Job:
    """A run to perform, the code that it executes, the folder that receives it, and whether an
    existing run is repeated. `audited` has the settings of the machines of a real-time run."""

    planned: Planned
    driving: Code
    opened: Opened
    fresh: bool = False
    audited: audit.Collected | None = None


class Engine(Protocol):
    """Performs runs with an executor."""

    @property
    def executor(self) -> Executor:
        """The executor to which the results of `call` are submitted."""

    @property
    def others(self) -> Mapping[str, str]:
        """Keys of runs that were performed in place of planned ones, by planned key."""

    def prepare(self, jobs: Sequence[Job]) -> None:
        """Called with all runs before the first `call`; LabError if none can be performed."""

    def check(self) -> None:
        """Called regularly while runs are missing and none of them reports; Lost if the engine can
        perform no more."""

    def call(self, job: Job, say: Say) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """The function and the arguments to submit for a run."""

    def accept(self, job: Job, done: Future[Any]) -> str:
        """Verify and keep what the function returned; MADE or EXISTS. LabError for its error, Lost
        if it concerns all runs."""


@contextmanager
def failed_run(planned: Planned) -> Iterator[None]:
    """RunFailed for an OSError, such as a refused fork or a full disk, which concerns one run."""
    try:
        yield
    except OSError as error:
        raise RunFailed(f"{planned.lab.name} {planned.title}: {error}. Run again") from error


class Threads:
    """Performs runs on this machine, `jobs` at a time; each takes one of the user's slots."""

    def __init__(self, jobs: int) -> None:
        self.executor = ThreadPoolExecutor(jobs)
        self._cancelled = threading.Event()
        self.others: Mapping[str, str] = {}

    def prepare(self, jobs: Sequence[Job]) -> None:
        """Do nothing, because the runs were planned on this machine."""

    def check(self) -> None:
        """Do nothing, because every call in a thread returns."""

    def call(self, job: Job, say: Say) -> tuple[Callable[..., str], tuple[Any, ...]]:
        def say_unless_cancelled(line: str) -> None:
            if self._cancelled.is_set():
                raise KeyboardInterrupt
            say(line)

        return make_once, (
            job.planned,
            job.driving,
            job.opened,
            job.fresh,
            self._cancelled.is_set,
            say_unless_cancelled,
            job.audited,
        )

    def accept(self, job: Job, done: Future[str]) -> str:
        with failed_run(job.planned):
            return done.result()

    def __enter__(self) -> Threads:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """After an error or ^C, end running runs; wait until all threads have ended."""
        if kind is not None:
            self._cancelled.set()
        self.executor.shutdown(wait=True, cancel_futures=True)
