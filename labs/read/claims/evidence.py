"""What a verdict is computed from, by condition: runs and their results, or rows of results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from labs.drive.condition import Condition
from labs.read.claims.draw_index import Draw
from labs.read.claims.judged_runs import JudgedRuns, judged_runs, of_digests
from labs.read.claims.ledger import in_condition
from labs.read.claims.ledger import parameter as requested
from labs.read.claims.verdict import Witness, together
from labs.read.display.provenance import asked_of
from labs.read.lab import Lab
from labs.read.runs.run import Run
from labs.read.stats.repetitions import Interval, of_ratio, repeated

OF_RUN: Mapping[str, Callable[[Lab, Run], Any]] = {
    "condition": lambda lab, run: run.condition,
    "group": lambda lab, run: lab.group_of(run),
    "note_codes": lambda lab, run: " ".join(note.code for note in lab.results(run).notes),
    "testbed": lambda lab, run: run.testbed,
    "kernel": lambda lab, run: run.kernel.release,
    "rtt_ms": lambda lab, run: run.measured.rtt_ms,
    "rate_mbit": lambda lab, run: run.measured.rate_mbit,
    "link": lambda lab, run: run.link.verdict,
    "link_ok": lambda lab, run: run.link.ok,
    "link_asked": lambda lab, run: asked_of(run),
    "digest": lambda lab, run: run.digest,
}
"""What a row has of a run besides the results of its lab."""


def seed_of_study(run: Run) -> int:
    """The seed that the study of a run was requested with; 0 if none was."""
    draw = run.condition_asked.settings.get("draw")
    return int(run.inputs.get("seed", 0)) - (draw if isinstance(draw, int) else 0)


class RunRow(Mapping[str, Any]):
    """The results of a run, and the run's own columns of a table (`BESIDE_RESULTS`), as they are
    read: of the results only those are computed that a judge reads."""

    def __init__(self, lab: Lab, run: Run) -> None:
        self._lab, self._run = lab, run

    def __getitem__(self, name: str) -> Any:
        if name in OF_RUN:
            return OF_RUN[name](self._lab, self._run)
        return self._lab.results(self._run).values[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*self._lab.results(self._run).values, *OF_RUN))

    def __len__(self) -> int:
        return len(self._lab.results(self._run).values) + len(OF_RUN)


class Evidence:
    """Rows of results of one lab, one per condition, of one testbed and kernel series: of runs, or
    of a recorded draw, whose runs are not kept.

    `every` has all repetitions of the conditions in real time; without them it is empty.
    `parameters` are those of their study.
    """

    def __init__(
        self,
        lab: Lab,
        runs: Mapping[str, Run],
        every: Iterable[Run] = (),
        parameters: Mapping[str, object] | None = None,
        draw: Draw | None = None,
    ) -> None:
        self.lab = lab
        self.runs = runs
        self.parameters = (draw.parameters if draw else parameters) or {}
        self._every = tuple(every)
        self._draw = draw
        self._rows: Mapping[str, Mapping[str, Any]] = (
            draw.rows if draw else {name: RunRow(lab, run) for name, run in runs.items()}
        )

    @property
    def conditions(self) -> Collection[str]:
        """The names of the existing conditions, in order."""
        return self._rows.keys()

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

    def row(self, name: str) -> Mapping[str, Any]:
        """The results of an existing condition, with its group, kernel and link."""
        return self._rows[name]

    def run(self, name: str) -> Run:
        """The run of an existing condition. ValueError for a draw: a mistake in the code."""
        if self._draw is not None:
            raise ValueError(f"the draws of {name} are rows: its claim must not need a run")
        return self.runs[name]

    def condition(self, name: str) -> Condition:
        """An existing condition as it was requested."""
        return self._draw.conditions[name] if self._draw else self.runs[name].condition_asked

    def link_problem(self, name: str) -> str | None:
        """What is wrong with the link of a condition; None if nothing is."""
        row = self.row(name)
        return None if row["link_ok"] else str(row["link"])

    def has_note(self, name: str, code: str) -> bool:
        """Whether the results of a condition have a note with this code."""
        return code in str(self.row(name)["note_codes"] or "").split()

    def excluded(self, name: str) -> list[str]:
        """Why the figures of a condition are excluded, in words; empty if they are not."""
        notes = self.lab.results(self.runs[name]).notes if name in self.runs else ()
        return [note.text for note in notes if note.excludes]

    def seed(self, names: Sequence[str]) -> int:
        """The seed of the runs of these conditions; 0 for runs without one."""
        if self._draw is not None:
            return self._draw.seed
        return next((seed_of_study(self.runs[name]) for name in names), 0)

    def judged(self, patterns: Iterable[str]) -> JudgedRuns | None:
        """What identifies the runs of the conditions that match, with all repetitions."""
        names = self.matching(*patterns)
        if self._draw is not None:
            digests = {name: [str(self.row(name)["digest"])] for name in names}
            return of_digests(self.lab.name, digests, self.parameters, self._draw.file)
        repeated_ones = [run for run in self._every if run.condition in names]
        return judged_runs(repeated_ones or (self.runs[name] for name in names), self.parameters)

    def ratio(self, over: str, under: str, column: str) -> Interval | None:
        """The ratio of the medians of a column in two repeated conditions on one kernel, with its
        interval; None with too few undisturbed repetitions."""
        for release in dict.fromkeys(
            run.kernel.release for run in self._every if run.condition == over
        ):
            sides = [self._values(name, column, release) for name in (over, under)]
            if (ratio := of_ratio(*sides)) is not None:
                return ratio
        return None

    def _values(self, name: str, column: str, release: str) -> list[float]:
        """A column of the undisturbed repetitions of a condition on a kernel."""
        runs = [
            run for run in self._every if run.condition == name and run.kernel.release == release
        ]
        return [value for some in repeated(self.lab, runs) for value in some.column(column)]

    def parameter(self, name: str, parameter: str) -> float | str | None:
        """A parameter of the lab as requested of a run; None if the run does not have it. What is
        neither of the link nor a setting, the function `parameter` of the lab's results gives."""
        if self._draw is not None:
            return in_condition(self.condition(name), parameter)
        of_lab = getattr(self.lab.part("results"), "parameter", None)
        return requested(self.runs[name], parameter, of_lab)

    def witness(self, names: Sequence[str]) -> Witness | None:
        """The testbed and the kernel of these runs; None without runs."""
        rows = [self.row(name) for name in names]
        return together(Witness(row["testbed"], str(row["kernel"])) for row in rows)
