"""A study at every combination of parameter values: one table, one chart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, overload

from pandas import DataFrame

from labs.catalog import lab_of
from labs.drive.parameters.axes import KERNEL, Axes, axes, points, with_kernels
from labs.drive.parameters.declare import LabParameters, Scalar, declared, plain, unknown
from labs.drive.result_columns import Column
from labs.drive.testbeds import TESTBEDS
from labs.errors import BadInput, LabError
from labs.launch.wanted import Wanted
from labs.read.display.format import in_runs
from labs.read.display.provenance import of_points
from labs.read.display.rich_output import Table
from labs.read.figures.points import Points
from labs.read.lab import OF_RUN, Lab
from labs.read.result_row import UNUSED
from labs.read.runs.archive import ENDINGS
from labs.read.unused_parameters import same_run, unused_axes
from labs.studies import study as of_point
from labs.studies.study import Study

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Point:
    """The values of the varied parameters, and the study of this combination.

    If the study has no runs, its `lacks` says what is missing, and `error` is the exception.
    """

    values: Mapping[str, Scalar]
    study: Study
    error: LabError | None = None

    @cached_property
    def results(self) -> Table | LabError:
        """The results, or the error: the runs do not exist or cannot be read."""
        return attempted(self.study.results) if self.error is None else self.error

    @property
    def lacks(self) -> LabError | None:
        """Why there are no results; None if there are."""
        return self.results if isinstance(self.results, LabError) else None


@dataclass(frozen=True, eq=False, repr=False)
class Grid(Points):
    """The studies of a lab at every combination of the values in `over`.

    `over` has the values by parameter; the last parameter varies fastest in `points`.
    """

    parameters: LabParameters
    over: Axes
    points: tuple[Point, ...]
    lab: Lab

    @property
    def studies(self) -> Mapping[tuple[Scalar, ...], Study]:
        """The study of each combination of values, in the order of `over`: `studies[50, 10]`."""
        return {tuple(point.values.values()): point.study for point in self.points}

    def results(self) -> Table:
        """One row per point and condition: the varied parameters, then the columns of
        `study.results()`.

        A result column with the name of a varied parameter is called `run_NAME`, such as
        `run_rate_mbit` for the measured rate. A condition that does not use a varied parameter
        has the same run at several points, and its notes say so.
        """
        return self._results.copy()

    @property
    def link(self) -> Table:
        """The link of each run, as in `study.link`, with the varied parameters."""
        rows = [
            {**values, **row, "Note": _joined(row.get("Note"), self._same(row["Condition"]))}
            for values, row in self._rows(lambda point: point.study.link)
        ]
        return Table(rows, columns=None if rows else list(self.over))

    @property
    def lacking(self) -> Table:
        """The points without results, and the reason: one row per point."""
        rows = [{**point.values, "lacks": str(point.lacks)} for point in self.points if point.lacks]
        return Table(rows, columns=[*self.over, "lacks"])

    @property
    def errors(self) -> tuple[LabError, ...]:
        """The errors of the points without results, without repeated messages."""
        errors = (point.lacks for point in self.points if point.lacks)
        return tuple({str(error): error for error in errors}.values())

    @property
    def keys(self) -> frozenset[str]:
        """The keys of the distinct runs."""
        return frozenset(run.key for point in self.points for run in point.study.every)

    @cached_property
    def same(self) -> Mapping[str, list[str]]:
        """By condition, the varied parameters that it does not use."""
        return unused_axes(self.lab, [point.study.parameters for point in self.points], self.over)

    @property
    def axes(self) -> Axes:
        return self.over

    @cached_property
    def units(self) -> Mapping[str, str]:
        every = declared(type(self.parameters))
        return {name: parameter.unit for name, parameter in every.items()}

    def drawn(self, column: str | None, fixed: Mapping[str, object]) -> tuple[DataFrame, Column]:
        """All rows, or those whose headline figure is meaningful."""
        from labs.read.figures.parameter_layout import restricted  # noqa: PLC0415

        table = restricted(self.results(), tuple(self.over), fixed)
        if column is None:
            column = self._headline(table)
            table[column] = table[column].where(table["key"].isin(self._with_headline))
        elif column not in table:
            raise BadInput(unknown(column, map(str, table), "column of the results"))
        return table, self.lab.columns.get(column, Column(column, unit="", meaning=""))

    def caption(self, table: DataFrame) -> str:
        return of_points(table, tuple(self.over))

    def note(self, table: DataFrame) -> str:
        """The parameters that the conditions of these rows do not use."""
        drawn = set(table["condition"])
        return _joined(*(f"{name}: {self._same(name)}" for name in self.same if name in drawn))

    def _headline(self, table: DataFrame) -> str:
        for name, column in self.lab.columns.items():
            if column.headline and name in table and table[name].notna().any():
                return name
        raise BadInput(
            "no headline figure has a value at these points. Name a column of grid.results(): "
            'grid.chart("COLUMN")'
        )

    @cached_property
    def _with_headline(self) -> frozenset[str]:
        """The keys of the runs whose headline figure is meaningful."""
        runs = (run for point in self.points for run in point.study.runs)
        return frozenset(run.key for run in runs if self.lab.headline(run) is not None)

    @cached_property
    def _results(self) -> Table:
        rows = []
        for values, row in self._rows(lambda point: point.results):
            if same := self._same(row["condition"]):
                row["notes"] = _joined(row["notes"], same)
                row["note_codes"] = " ".join(dict.fromkeys([*row["note_codes"].split(), UNUSED]))
            renamed = {(f"{OF_RUN}{name}" if name in values else name): row[name] for name in row}
            rows.append({**values, **renamed})
        if not rows:
            raise self.errors[0]
        return Table(rows)

    def _rows(self, of: Callable[[Point], Any]) -> Iterator[tuple[Mapping[str, Scalar], Any]]:
        """The rows of a table of each point with results, each after the values of the point."""
        for point in self.points:
            for row in () if point.lacks else of(point).to_dict("records"):
                yield point.values, row

    def _same(self, condition: str) -> str:
        """The note for a condition that has the same run at several points; empty for others."""
        return same_run(self.same.get(condition, ()))

    def summary(self) -> str:
        lacking = sum(point.error is not None for point in self.points)
        without = f", {lacking} without runs (see lacking)" if lacking else ""
        lists = (f"{name} {', '.join(map(plain, values))}" for name, values in self.over.items())
        return (
            f"of {self.lab.name} over {' and '.join(lists)}: {len(self.points)} points{without}, "
            f"{in_runs(len(self.keys))}"
        )


def _joined(*notes: str | None) -> str:
    return "; ".join(filter(None, notes))


def attempted(function: Callable[..., T], *given: Any) -> T | LabError:
    """The value of a function, or the LabError that it raised."""
    try:
        return function(*given)
    except LabError as error:
        return error


@overload
def study(
    p: LabParameters, *, over: None = None, fresh: bool = False, jobs: int | None = None
) -> Study: ...


@overload
def study(
    p: LabParameters, *, over: Mapping[str, Any], fresh: bool = False, jobs: int | None = None
) -> Grid: ...


def study(
    p: LabParameters,
    *,
    over: Mapping[str, Any] | None = None,
    fresh: bool = False,
    jobs: int | None = None,
) -> Study | Grid:
    """Perform the missing runs of the study that the parameters describe; return the study.

    `over` has lists of values by parameter, such as `over={"rate_mbit": [50, 100, 200]}`. The
    result is then a grid: the studies at every combination of the values. A run that several points
    share is performed once. A point that cannot run (its kernel is not built, or it is not
    recorded) does not affect the others; `grid.lacking` gives the reason. `fresh` repeats existing
    runs, too; `jobs` limits the number of concurrent runs. `labs.studies.study.study` describes
    recorded runs and several kernels.
    """
    wanted = Wanted(fresh, jobs)
    return of_point.study(p, wanted) if over is None else grid_of(p, over, wanted)


def grid_of(p: LabParameters, over: Mapping[str, Any], wanted: Wanted) -> Grid:
    """The studies at every combination of the values; missing runs are performed as `wanted`."""
    varied, every = varied_points(p, over)
    lab = lab_of(p)
    if not p.where.performs or Path(p.runs).name.endswith(ENDINGS):
        outcomes = [attempted(of_point.study, at) for at in every]
    else:
        outcomes = _performed(lab, every, varied, wanted)
    errors = [outcome for outcome in outcomes if isinstance(outcome, LabError)]
    if len(errors) == len(outcomes):
        raise errors[0]
    pairs = zip(every, outcomes, strict=True)
    return Grid(p, varied, tuple(_point(at, varied, outcome, lab) for at, outcome in pairs), lab)


def varied_points(
    p: LabParameters, over: Mapping[str, object]
) -> tuple[Axes, tuple[LabParameters, ...]]:
    """The checked axes, including that of several kernels, and the parameters of every point."""
    varied = axes(type(p), over)
    if p.where.any_kernel:
        varied = with_kernels(p, varied)
    elif KERNEL in varied:
        others = ", ".join(kind.name for kind in TESTBEDS.values() if kind.any_kernel)
        raise BadInput(
            f"the testbed {p.testbed} has a kernel of its own, so {KERNEL} cannot be varied. "
            f"Remove it, or use one of the testbeds {others}"
        )
    return varied, points(p, varied)


def _performed(
    lab: Lab, every: Sequence[LabParameters], varied: Axes, wanted: Wanted
) -> list[Study | LabError]:
    """The study of each point, or its error; all runs in virtual time share one pool."""
    names = [" ".join(f"{name} {plain(getattr(p, name))}" for name in varied) for p in every]
    if not every[0].where.virtual_time:
        titled = zip(every, names, strict=True)
        return [attempted(of_point.performed, p, wanted, f", {name}") for p, name in titled]
    # Performing runs needs a Unix system; reading recorded ones does not.
    from labs.launch import launch, progress  # noqa: PLC0415

    planned = launch.plan_points(lab, every, names)
    with progress.Bar(lab.name, len(launch.distinct_runs(planned))) as bar:
        made = launch.run_points(lab, every, planned, replace(wanted, tell=bar.tell))
    return [
        of if isinstance(of, LabError) else attempted(of_point.of_made, of, p, lab)
        for of, p in zip(made, every, strict=True)
    ]


def _point(p: LabParameters, varied: Axes, outcome: Study | LabError, lab: Lab) -> Point:
    values = {name: getattr(p, name) for name in varied}
    if isinstance(outcome, Study):
        return Point(values, outcome)
    without = Study(p, (), Path(p.runs), None, False, lab=lab, lacks=str(outcome))
    return Point(values, without, outcome)
