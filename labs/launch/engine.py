"""Engines, which perform runs: on this machine, or on the workers of a scheduler.

The launcher, which is the same for all engines (`labs.launch.launch.perform`), calls an engine from
many threads, one per run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from labs.errors import RunFailed
from labs.launch import audit
from labs.launch.code_digest import Code
from labs.launch.make import Opened, make_once
from labs.launch.plan import Planned

Say = Callable[[str], None]
"""Receives a line about a run in progress."""
Cancelled = Callable[[], bool]
"""Whether runs in progress are no longer wanted."""


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
    """Performs runs, `places` of them at a time."""

    @property
    def places(self) -> int: ...

    def check(self) -> None:
        """Called regularly while runs are missing; LabError if no more of them can be performed."""

    def perform(self, job: Job, say: Say, cancelled: Cancelled) -> str:
        """Perform and keep a run; MADE or EXISTS. LabError for its error, Lost if it concerns all
        runs, KeyboardInterrupt if it was cancelled."""


@contextmanager
def failed_run(planned: Planned) -> Iterator[None]:
    """RunFailed for an OSError, such as a refused fork or a full disk, which concerns one run."""
    try:
        yield
    except OSError as error:
        raise RunFailed(f"{planned.lab.name} {planned.title}: {error}. Run again") from error


@dataclass(frozen=True)
class Threads:
    """Performs runs on this machine; each takes one of the user's slots."""

    places: int

    def check(self) -> None:
        """Do nothing, because every run on this machine ends."""

    def perform(self, job: Job, say: Say, cancelled: Cancelled) -> str:
        def say_unless_cancelled(line: str) -> None:
            if cancelled():
                raise KeyboardInterrupt
            say(line)

        return make_once(
            job.planned,
            job.driving,
            job.opened,
            job.fresh,
            cancelled,
            say_unless_cancelled,
            job.audited,
        )
