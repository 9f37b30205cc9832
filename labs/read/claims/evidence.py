"""The runs that a verdict is computed from, and their results, by condition."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, cast

from labs.read.claims.ledger import parameter as requested
from labs.read.claims.verdict import Witness
from labs.read.lab import Lab
from labs.read.run_results import Found
from labs.read.runs.run import Run
from labs.read.stats.repetitions import Interval, of_ratio, repeated


class Evidence:
    """Runs of one lab, one per condition; results are computed once per run.

    `every` has all repetitions of the conditions in real time; without them it is empty.
    """

    def __init__(self, lab: Lab, runs: Mapping[str, Run], every: Iterable[Run] = ()) -> None:
        self.lab = lab
        self.runs = runs
        self._every = tuple(every)

    def matching(self, *patterns: str) -> tuple[str, ...]:
        """The existing conditions that match any of the patterns, in the order of the runs."""
        return tuple(
            name for name in self.runs if any(fnmatchcase(name, pattern) for pattern in patterns)
        )

    def lacking(self, patterns: Iterable[str]) -> tuple[str, ...]:
        """The patterns that no run matches."""
        return tuple(pattern for pattern in patterns if not self.matching(pattern))

    def run(self, name: str) -> Run:
        """The run of an existing condition."""
        return self.runs[name]

    def found(self, name: str) -> Found:
        """The lab's results of the run of a condition, with notes."""
        return self.lab.results(self.runs[name])

    def ratio(self, over: str, under: str, column: str) -> Interval | None:
        """The ratio of the medians of a column in two repeated conditions on one kernel, with its
        interval; None with too few undisturbed repetitions."""
        for release in dict.fromkeys(
            run.kernel.release for run in self._every if run.condition == over
        ):
            sides = [self._values(name, column, release) for name in (over, under)]
            if (found := of_ratio(*sides)) is not None:
                return found
        return None

    def _values(self, name: str, column: str, release: str) -> list[float]:
        """A column of the undisturbed repetitions of a condition on a kernel."""
        runs = [
            run for run in self._every if run.condition == name and run.kernel.release == release
        ]
        return [one for found in repeated(self.lab, runs) for one in found.column(column)]

    def behind(self, patterns: Iterable[str]) -> tuple[Run, ...]:
        """The runs of the conditions that match, with all repetitions."""
        names = self.matching(*patterns)
        repeated_ones = [run for run in self._every if run.condition in names]
        return tuple(repeated_ones or (self.runs[name] for name in names))

    def row(self, name: str) -> Mapping[str, Any]:
        """The results of the run of a condition, with its group, kernel and link."""
        run = self.runs[name]
        of_run = {
            "condition": name,
            "group": self.lab.group_of(run),
            "kernel": run.kernel.release,
            "rtt_ms": run.measured.rtt_ms,
            "rate_mbit": run.measured.rate_mbit,
        }
        # Of the results only those are computed that a judge reads.
        return ChainMap(cast("dict[str, Any]", self.found(name).values), of_run)

    def hook(self, name: str) -> Callable[..., Any] | None:
        """A function of the lab's claims that shared code calls, or None if it has none."""
        found: Callable[..., Any] | None = getattr(self.lab.part("claims"), name, None)
        return found

    def parameter(self, name: str, parameter: str) -> float | str | None:
        """A parameter of the lab as requested of a run; None if the run does not have it."""
        return requested(self.runs[name], parameter, self.hook("parameter"))

    def witness(self, names: Sequence[str]) -> Witness | None:
        """The testbed and the kernel of these runs; None without runs."""
        runs = [self.runs[name] for name in names]
        if not runs:
            return None
        return Witness(
            ", ".join(dict.fromkeys(run.testbed for run in runs)),
            ", ".join(dict.fromkeys(str(run.kernel.release) for run in runs)),
        )
