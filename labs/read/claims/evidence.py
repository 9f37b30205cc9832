"""What a verdict is computed from, by condition: runs and their results, or rows of results."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, cast

from labs.drive.condition import Condition
from labs.drive.result_columns import Note
from labs.read.claims.draw_index import Draw
from labs.read.claims.judged_runs import JudgedRuns, judged_runs, of_digests
from labs.read.claims.ledger import in_condition
from labs.read.claims.ledger import parameter as requested
from labs.read.claims.verdict import Witness, together
from labs.read.display.provenance import asked_of
from labs.read.lab import Lab
from labs.read.run_results import Found
from labs.read.runs.run import Run
from labs.read.stats.repetitions import Interval, of_ratio, repeated


def seed_of_study(run: Run) -> int:
    """The seed that the study of a run was requested with; 0 if none was."""
    draw = run.condition_asked.settings.get("draw")
    return int(run.inputs.get("seed", 0)) - (draw if isinstance(draw, int) else 0)


class Evidence:
    """Runs of one lab, one per condition, of one testbed and kernel series; results are computed
    once per run.

    `every` has all repetitions of the conditions in real time; without them it is empty.
    `parameters` are those of their study.
    """

    def __init__(
        self,
        lab: Lab,
        runs: Mapping[str, Run],
        every: Iterable[Run] = (),
        parameters: Mapping[str, object] | None = None,
    ) -> None:
        self.lab = lab
        self.runs = runs
        self.parameters = parameters or {}
        self._every = tuple(every)

    @property
    def conditions(self) -> Iterable[str]:
        """The names of the existing conditions, in order."""
        return self.runs

    def matching(self, *patterns: str) -> tuple[str, ...]:
        """The existing conditions that match any of the patterns, in the order of the runs."""
        return tuple(
            name
            for name in self.conditions
            if any(fnmatchcase(name, pattern) for pattern in patterns)
        )

    def lacking(self, patterns: Iterable[str]) -> tuple[str, ...]:
        """The patterns that no run matches."""
        return tuple(pattern for pattern in patterns if not self.matching(pattern))

    def run(self, name: str) -> Run:
        """The run of an existing condition."""
        return self.runs[name]

    def condition(self, name: str) -> Condition:
        """An existing condition as it was requested."""
        return self.runs[name].condition_asked

    def link_problem(self, name: str) -> str | None:
        """What is wrong with the link of a condition; None if nothing is."""
        link = self.runs[name].link
        return None if link.ok else link.verdict

    def link_asked(self, name: str) -> str:
        """The link that was requested for a condition: `1000 Mbit/s, 200 ms`."""
        return asked_of(self.runs[name])

    def seed(self, names: Sequence[str]) -> int:
        """The seed of the runs of these conditions; 0 for runs without one."""
        return next((seed_of_study(self.runs[name]) for name in names), 0)

    def judged(self, patterns: Iterable[str]) -> JudgedRuns | None:
        """What identifies the runs of the conditions that match, with all repetitions."""
        names = self.matching(*patterns)
        repeated_ones = [run for run in self._every if run.condition in names]
        return judged_runs(repeated_ones or (self.runs[name] for name in names), self.parameters)

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
        return together(Witness(run.testbed, str(run.kernel.release)) for run in runs)


class RowEvidence(Evidence):
    """Rows of results instead of runs, one per condition: one draw of an index."""

    def __init__(self, lab: Lab, draw: Draw) -> None:
        super().__init__(lab, {}, (), draw.parameters)
        self._draw = draw

    @property
    def conditions(self) -> Iterable[str]:
        return self._draw.rows

    def run(self, name: str) -> Run:
        raise ValueError(f"the draws of {name} are rows: its judging function must not need a run")

    def condition(self, name: str) -> Condition:
        return self._draw.conditions[name]

    def found(self, name: str) -> Found:
        row = self._draw.rows[name]
        return Found(row, tuple(Note(code, "") for code in str(row["note_codes"] or "").split()))

    def link_problem(self, name: str) -> str | None:
        row = self._draw.rows[name]
        return None if row["link_ok"] else str(row["link"])

    def link_asked(self, name: str) -> str:
        return str(self._draw.rows[name]["link_asked"])

    def seed(self, names: Sequence[str]) -> int:
        return self._draw.seed

    def judged(self, patterns: Iterable[str]) -> JudgedRuns | None:
        rows = {name: self._draw.rows[name] for name in self.matching(*patterns)}
        digests = {name: [str(row["digest"])] for name, row in rows.items()}
        return of_digests(self.lab.name, digests, self._draw.parameters, self._draw.file)

    def row(self, name: str) -> Mapping[str, Any]:
        return self._draw.rows[name]

    def parameter(self, name: str, parameter: str) -> float | str | None:
        return in_condition(self.condition(name), parameter)

    def witness(self, names: Sequence[str]) -> Witness | None:
        return self._draw.witness if names else None
