"""What a call wants of its runs, who performs them, and what is told about them meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from labs.errors import LabError, RunFailed

if TYPE_CHECKING:
    from labs.drive.record.seal import Seal
    from labs.launch.audit import Collected
    from labs.launch.plan import Planned
    from labs.read.runs.run import Run

AUTO = "auto"
BOOT = "LABS_BOOT"
"""The environment variable with the boot mode of calls that do not name it."""


@dataclass(frozen=True)
class Line:
    """A line that a run printed."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Waiting:
    """A run waits, such as `for a slot`."""

    text: str

    def __str__(self) -> str:
        return f"waiting {self.text}"


@dataclass(frozen=True)
class Performed:
    """A run was performed, and is complete."""

    def __str__(self) -> str:
        return "made"


@dataclass(frozen=True)
class Exists:
    """A run is complete, because it existed before."""

    def __str__(self) -> str:
        return "there already"


@dataclass(frozen=True)
class Failed:
    """A run failed, or another piece of work that is counted like runs."""

    error: LabError

    def __str__(self) -> str:
        return f"failed: {self.error}"


Notice = Line | Waiting
"""What is told about a run in progress."""
Outcome = Performed | Exists
Event = Notice | Outcome | Failed
ENDS = (Performed, Exists, Failed)
"""No event of a run follows one of these."""
Say = Callable[[Notice], None]
Tell = Callable[[str, Event], None]
"""Called with a run's title and what happened to it."""
Cancelled = Callable[[], bool]
"""Whether runs in progress are no longer wanted."""


class Lost(RunFailed):
    """The engine can perform no further runs, which ends a batch even if other failures do not."""


class Opened:
    """The complete runs of a folder. Each is verified and opened once, unless `keep` is false,
    because a batch has too many to keep all of them open."""

    def __init__(self, runs: Path, *, keep: bool = True) -> None:
        self.folder = runs
        self._keep = keep
        self._runs: dict[str, Run] = {}
        self._seals: dict[str, Seal] = {}

    def hashed(self, name: str, seal: Seal) -> None:
        """Note the seal of a run whose files this process has just hashed."""
        self._seals[name] = seal

    def __getitem__(self, name: str) -> Run:
        """A run; BadInput or Damaged if it is not complete."""
        from labs.read.runs.run import open_run  # noqa: PLC0415  waiting needs no runs

        run = self._runs.get(name) or open_run(self.folder / name, self._seals.pop(name, None))
        if self._keep:
            self._runs[name] = run
        return run

    def complete(self, name: str) -> bool:
        """Whether a run exists, is complete, and matches its seal."""
        try:
            return (self.folder / name).is_dir() and bool(self[name])
        except LabError:
            return False


class Engine(Protocol):
    """Performs runs, `places` of them at a time, each in a thread of the launcher."""

    @property
    def places(self) -> int: ...

    def check(self) -> None:
        """Called regularly while runs are missing; LabError if no more of them can be performed."""

    def perform(self, job: Job, say: Say, cancelled: Cancelled) -> Outcome:
        """Perform and keep a run. LabError for its error, Lost if it concerns all runs,
        KeyboardInterrupt if it was cancelled."""


def tell_nobody(title: str, event: Event) -> None:
    """Discard progress."""


@dataclass(frozen=True)
class Wanted:
    """How a call wants its missing runs.

    `fresh` repeats existing runs, too. `jobs` limits the number of concurrent runs (default: one
    per CPU). `boot` is how virtual kernels boot: auto, seccomp or ptrace; the bytes of a run do not
    depend on it. A failure ends all runs, unless `keep_going`. `engine` performs the runs; without
    one, this machine does.
    """

    fresh: bool = False
    jobs: int | None = None
    boot: str = field(default_factory=lambda: os.environ.get(BOOT, AUTO))
    keep_going: bool = False
    tell: Tell = tell_nobody
    engine: Engine | None = None


@dataclass(frozen=True)
class Job:
    """A run to perform, and the folder that receives it. `audited` has the settings of the machines
    of a real-time run."""

    planned: Planned
    opened: Opened
    wanted: Wanted
    audited: Collected | None = None
