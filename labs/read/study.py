"""A study as a lab's figures see it; `labs.studies.study` has the real one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from labs.read.display.rich_output import Table
    from labs.read.runs.run import Run
    from labs.read.stats.repetitions import Repeated


class Study(Protocol):
    """The runs of some parameters, one per condition."""

    @property
    def runs(self) -> tuple[Run, ...]:
        """One run per condition."""

    @property
    def conditions(self) -> tuple[str, ...]:
        """The names of the conditions, in order."""

    def run(self, condition: str) -> Run:
        """The run of a condition."""

    def results(self) -> Table:
        """One row per run."""

    @property
    def repeated(self) -> tuple[Repeated, ...]:
        """The conditions that were repeated, with all their runs."""
