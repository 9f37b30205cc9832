"""The recorded runs of the lab `stack` as a study whose conditions were repeated, undisturbed.

The runs are those of tests/fixtures/studies, one per condition, all disturbed. Here each counts as
five equal ones, so that ratios have an interval.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from labs.catalog import find
from labs.read.display.rich_output import Table
from labs.read.runs.archive import run_folders, unpacked
from labs.read.runs.run import Run, open_run
from labs.read.stats.repetitions import FEWEST, Repeated
from labs.studies.study import Study
from tests.real_runs import STUDIES

LAB = find("stack")


@cache
def stack_runs() -> dict[str, Run]:
    """The run of each condition."""
    folder = unpacked(STUDIES / "stack.tar.xz")
    return {run.condition: run for run in map(open_run, run_folders(folder))}


def repeated(run: Run, count: int = FEWEST) -> Repeated:
    """A condition as if its run had been repeated, undisturbed, with the same result."""
    some = (run,) * count
    value = LAB.results(run).values["p50_us"]
    return Repeated(LAB, run.condition, "p50_us", some, some, (value,) * count)


@dataclass(frozen=True)
class RepeatedStudy:
    """A study as figures see it."""

    runs: tuple[Run, ...]
    repeated: tuple[Repeated, ...]

    @property
    def conditions(self) -> tuple[str, ...]:
        return tuple(run.condition for run in self.runs)

    def run(self, condition: str) -> Run:
        return next(run for run in self.runs if run.condition == condition)

    def results(self) -> Table:
        folder = self.runs[0].path.parent if self.runs else STUDIES
        return Study(LAB.Parameters(), self.runs, folder, None, True, lab=LAB).results()


def undisturbed(names: Iterable[str] = ()) -> RepeatedStudy:
    """The study of these conditions, or of all."""
    chosen = tuple(run for name, run in stack_runs().items() if name in set(names) or not names)
    return RepeatedStudy(chosen, tuple(map(repeated, chosen)))


def disturbed() -> RepeatedStudy:
    """A study of which no run counts."""
    runs = tuple(stack_runs().values())
    none = tuple(Repeated(LAB, run.condition, "p50_us", (run,), (), ()) for run in runs)
    return RepeatedStudy(runs, none)
