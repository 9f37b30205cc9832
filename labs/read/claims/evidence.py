"""What a verdict is computed from, by condition: runs and their results, or rows of results.

The recorded draws of a lab are `draws-LAB.parquet`, an index as `labs batch` writes it, of several
seeds. Its rows judge claims with chance; the runs themselves are not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from labs.drive.parameters.declare import declared
from labs.errors import Damaged, Missing
from labs.guest.condition import Condition
from labs.read.batch_index import Index, read_index
from labs.read.batch_index_schema import COPY_AGAIN, MADE, beside
from labs.read.claims.ledger import parameter as parameter_of
from labs.read.claims.ledger import requested
from labs.read.claims.verdict import (
    JudgedRuns,
    Witness,
    but_how_much,
    judged_runs,
    of_digests,
    together,
)
from labs.read.display.provenance import asked_of
from labs.read.lab import BESIDE_RESULTS, Lab
from labs.read.runs import recorded
from labs.read.runs.run import Run
from labs.read.stats.repetitions import Interval, of_ratio, repeated

Row = Mapping[str, Any]
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
    "asked": lambda lab, run: run.condition_asked,
    "seed": lambda lab, run: seed_of_study(run),
}
"""What a row has of a run besides the results of its lab."""


def seed_of_study(run: Run) -> int:
    """The seed that the study of a run was requested with; 0 if none was."""
    draw = run.condition_asked.settings.get("draw")
    return int(run.inputs.get("seed", 0)) - (draw if isinstance(draw, int) else 0)


class RunRow(Row):
    """The results of a run, and the run's own columns of a table (`BESIDE_RESULTS`), as they are
    read: of the results only those are computed that a judge reads."""

    def __init__(self, lab: Lab, run: Run) -> None:
        self._lab, self._run = lab, run

    def __getitem__(self, name: str) -> Any:
        if name in OF_RUN:
            return OF_RUN[name](self._lab, self._run)
        return self._lab.results(self._run).values[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*self._lab.columns, *OF_RUN))

    def __len__(self) -> int:
        return len(self._lab.columns) + len(OF_RUN)


class Evidence:
    """Rows of results of one lab, one per condition, of one testbed and kernel series: of runs, or
    the `rows` of a recorded draw in a file, whose runs are not kept.

    `every` has all repetitions of the conditions in real time; without them it is empty.
    `parameters` are those of their study, `name` says to people where they are.
    """

    def __init__(
        self,
        lab: Lab,
        runs: Mapping[str, Run],
        every: Iterable[Run] = (),
        parameters: Mapping[str, object] | None = None,
        name: str = "",
        rows: Mapping[str, Row] | None = None,
        file: str = "",
    ) -> None:
        self.lab, self.runs, self.every = lab, runs, tuple(every)
        self.parameters, self.name, self.file = parameters or {}, name, file
        self.rows = rows or {name: RunRow(lab, run) for name, run in runs.items()}

    def matching(self, *patterns: str) -> tuple[str, ...]:
        """The existing conditions that match any of the patterns, in the order of the runs."""
        return tuple(
            name for name in self.rows if any(fnmatchcase(name, pattern) for pattern in patterns)
        )

    def row(self, name: str) -> Row:
        """The results of an existing condition, with its group, kernel and link."""
        return self.rows[name]

    def run(self, name: str) -> Run:
        """The run of an existing condition. ValueError for a draw: a mistake in the code."""
        if self.file:
            raise ValueError(f"the draws of {name} are rows: its claim must not need a run")
        return self.runs[name]

    def has_note(self, name: str, code: str) -> bool:
        """Whether the results of a condition have a note with this code."""
        return code in str(self.row(name)["note_codes"] or "").split()

    def excluded(self, names: Sequence[str]) -> list[str]:
        """Why the figures of conditions are excluded, in words; empty if they are not."""
        runs = [self.runs[name] for name in names if name in self.runs]
        notes = (note for run in runs for note in self.lab.results(run).notes)
        return [note.text for note in notes if note.excludes]

    def judged(self, patterns: Iterable[str]) -> JudgedRuns | None:
        """What identifies the runs of the conditions that match, with all repetitions."""
        names = self.matching(*patterns)
        if self.file:
            digests = {name: [str(self.row(name)["digest"])] for name in names}
            return of_digests(self.lab.name, digests, self.parameters, self.file)
        repetitions = [run for run in self.every if run.condition in names]
        return judged_runs(repetitions or (self.runs[name] for name in names), self.parameters)

    def ratio(self, over: str, under: str, column: str) -> Interval | None:
        """The ratio of the medians of a column in two repeated conditions on one kernel, with its
        interval; None with too few undisturbed repetitions."""
        runs = [run for run in self.every if run.condition in (over, under)]
        for release in dict.fromkeys(run.kernel.release for run in runs):
            same = repeated(self.lab, (run for run in runs if run.kernel.release == release))
            values = {some.condition: some.column(column) for some in same}
            ratio = of_ratio(values.get(over, ()), values.get(under, ()))
            if ratio is not None:
                return ratio
        return None

    def parameter(self, name: str, parameter: str) -> float | str | None:
        """A parameter of the lab as requested of a condition; None if it does not have it. What is
        neither of the link nor a setting, the function `parameter` of the lab's results gives."""
        if name in self.runs:
            return parameter_of(self.runs[name], parameter, self._of_lab)
        return requested(self.row(name)["asked"]).get(parameter)

    @cached_property
    def _of_lab(self) -> Callable[[Run, str], float | str | None] | None:
        """The function `parameter` that the lab's results define, and not one that they import."""
        module = self.lab.part("results")
        function = getattr(module, "parameter", None)
        is_defined = module and getattr(function, "__module__", "") == module.__name__
        return function if is_defined else None

    def requested(self, conditions: Iterable[str]) -> Sequence[str]:
        """The names of the settings and of the link of existing conditions."""
        asked = (requested(self.row(name)["asked"]) for name in conditions)
        return list(dict.fromkeys(name for values in asked for name in values))

    def says(self, conditions: Sequence[str], parameter: str) -> bool:
        """Whether these existing conditions say a parameter, or the lab's own function `parameter`
        may, which answers for some runs only."""
        return parameter in self.requested(conditions) or self._of_lab is not None

    def witness(self, names: Sequence[str]) -> Witness | None:
        """The testbed and the kernel of these runs; None without runs."""
        rows = [self.row(name) for name in names]
        return together(Witness(row["testbed"], str(row["kernel"])) for row in rows)


def recorded_draws(
    lab: Lab, name: str = "", of: Collection[str] | None = None
) -> Iterable[Evidence]:
    """The recorded draws of a lab: all of them, or those of the conditions and kernels of which a
    draw is a run with one of these digests. None without recorded data, or without pyarrow."""
    try:
        path = recorded.folder() / f"draws-{lab.name}.parquet"
        index = read_index(path) if path.is_file() else None
    except Missing:
        return []
    if index is None:
        return []
    if index.head.lab != lab.name:
        raise Damaged(f"{path} is an index of {index.head.lab}, not of {lab.name}. {COPY_AGAIN}")
    return list(_draws(lab, index, name, of))


def _draws(lab: Lab, index: Index, name: str, of: Collection[str] | None) -> Iterable[Evidence]:
    made = [row for row in index.rows.to_pylist() if row["status"] == MADE]
    release, testbed = beside("kernel", lab.Parameters), beside("testbed", lab.Parameters)

    def parameters(row: Row) -> dict[str, Any]:
        return {name: row[name] for name in index.parameters}

    def place(row: Row) -> tuple[object, ...]:
        how = but_how_much(parameters(row) | {"seed": None})
        return row[testbed], row[release], *how.values()

    named = {(place(row), row["condition"]) for row in made if of is None or row["digest"] in of}
    draws: dict[tuple[object, ...], list[Row]] = {}
    for row in made:
        if (place(row), row["condition"]) in named:
            draws.setdefault((*place(row), row["seed"]), []).append(row)
    for rows in draws.values():
        results = {row["condition"]: _results(lab, row) for row in rows}
        yield Evidence(lab, {}, (), parameters(rows[0]), name, results, index.path.name)


def _results(lab: Lab, row: Row) -> Row:
    """The columns of results and facts of a row under the names that they have in a run."""
    columns = {name: beside(name, lab.Parameters) for name in (*lab.columns, *BESIDE_RESULTS)}
    results = {name: row[column] for name, column in columns.items() if column in row}
    return {**results, "seed": row["seed"], "asked": _condition(lab, row)}


def _condition(lab: Lab, row: Row) -> Condition:
    """The condition of a row as requested, computed from its parameters; the same for each seed."""
    names = declared(lab.Parameters).keys() - {"seed", "only"}
    given = {name: row[name] for name in names if row.get(name) is not None}
    (asked,) = (
        condition
        for condition in lab.conditions(lab.Parameters(**given, only=row["condition"]))
        if condition.name == row["condition"]
    )
    return asked
