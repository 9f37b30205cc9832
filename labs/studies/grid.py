"""A study at every combination of parameter values: one table, one chart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, TypeVar, overload

import pandas
from plotly.graph_objects import Figure

from labs.catalog import lab_of
from labs.drive.parameters.axes import KERNEL, Axes, axes, points, with_kernels
from labs.drive.parameters.declare import LabParameters, Scalar, declared, plain, unknown
from labs.errors import BadInput, LabError
from labs.read.display.format import in_runs
from labs.read.display.provenance import RECORDED
from labs.read.display.rich_output import Table
from labs.read.lab import OF_RUN, Lab
from labs.read.result_row import UNUSED
from labs.read.runs.archive import ENDINGS
from labs.read.unused_parameters import same_run, unused_axes
from labs.studies import study as studies
from labs.studies.progress import Bar
from labs.studies.study import ON_ANY_KERNEL, Study

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Point:
    """The values of the varied parameters, and the study of this combination.

    If the study has no runs, its `lacks` says what is missing, and `error` is the exception.
    """

    values: Mapping[str, Scalar]
    study: Study
    error: LabError | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Grid:
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
        return {tuple(one.values.values()): one.study for one in self.points}

    def results(self) -> Table:
        """One row per point and condition: the varied parameters, then the columns of
        `study.results()`.

        A result column with the name of a varied parameter is called `run_NAME`, such as
        `run_rate_mbit` for the measured rate. A condition that does not use a varied parameter
        has the same run at several points, and its notes say so.
        """
        return self._table.copy()

    @property
    def link(self) -> Table:
        """The link of each run, as in `study.link`, with the varied parameters."""
        rows = []
        links = ((one, one.study.link) for one in self.points if self.error_at(one) is None)
        for point, row in _rows(links):
            told = [row.get("Note") or "", self._same(row["Condition"])]
            rows.append({**point, **row, "Note": "; ".join(filter(None, told))})
        return Table(rows, columns=None if rows else list(self.over))

    @property
    def lacking(self) -> Table:
        """The points without results, and the reason: one row per point."""
        rows = [
            {**one.values, "lacks": str(error)}
            for one in self.points
            if (error := self.error_at(one)) is not None
        ]
        return Table(rows, columns=[*self.over, "lacks"])

    @property
    def errors(self) -> tuple[LabError, ...]:
        """The errors of the points without results, without repeated messages."""
        found = [error for one in self.points if (error := self.error_at(one)) is not None]
        return tuple({str(error): error for error in found}.values())

    @property
    def keys(self) -> frozenset[str]:
        """The keys of the distinct runs."""
        return frozenset(run.key for one in self.points for run in one.study.every)

    @cached_property
    def same(self) -> Mapping[str, list[str]]:
        """By condition, the varied parameters that it does not use."""
        return unused_axes(self.lab, [one.study.parameters for one in self.points], self.over)

    def chart(
        self,
        column: str | None = None,
        x: str | None = None,
        columns: str | None = None,
        rows: str | None = None,
        **fixed: object,
    ) -> Figure:
        """Measured and predicted values of a column (default: the headline figure of the lab) over
        the varied parameters.

        `x`, `columns` and `rows` name the parameters of the x axis, of the panels from left to
        right, and of the panels from top to bottom; `x="condition"` draws bars by condition.
        Further keywords select what is drawn: `condition="default"`, `delay_ms=[10, 50]`. Without
        any choice, parameters that do not fit are fixed at their first values.
        """
        # Only for this figure: every notebook loads this module.
        from labs.read.figures.parameter_layout import is_many, restricted  # noqa: PLC0415
        from labs.read.figures.small_multiples import small_multiples  # noqa: PLC0415

        table = restricted(self.results(), tuple(self.over), fixed)
        if column is None:
            column = self._headline(table)
            excluded = [key in self._without_headline for key in table["key"]]
            table[column] = table[column].mask(pandas.Series(excluded, index=table.index))
        elif column not in table:
            raise BadInput(unknown(column, map(str, table), "column of the results"))
        known = self.lab.columns.get(column)
        drawn = {str(name) for name in table["condition"]}
        return small_multiples(
            table,
            column,
            over=[name for name in self.over if name not in fixed or is_many(fixed[name])],
            unit="" if known is None else known.unit,
            predicted=None if known is None else known.predicted_by,
            x=x,
            columns=columns,
            rows=rows,
            units={one.name: one.unit for one in declared(type(self.parameters)).values()},
            fit=not any(map(is_many, fixed.values())),
            note="; ".join(f"{name}: {self._same(name)}" for name in self.same if name in drawn),
        )

    def _headline(self, table: pandas.DataFrame) -> str:
        for name, one in self.lab.columns.items():
            if one.headline and name in table and table[name].notna().any():
                return name
        raise BadInput(
            "no headline figure has a value at these points. Name a column of grid.results(): "
            'grid.chart("COLUMN")'
        )

    @cached_property
    def _without_headline(self) -> frozenset[str]:
        """The keys of the runs whose headline figure is not meaningful."""
        runs = {run.key: run for one in self.points for run in one.study.runs}
        return frozenset(key for key, run in runs.items() if self.lab.headline(run) is None)

    @cached_property
    def _table(self) -> Table:
        rows = []
        tables = ((one, found) for one, found in self._found.items() if isinstance(found, Table))
        for point, row in _rows(tables):
            if said := self._same(row["condition"]):
                row["notes"] = "; ".join(filter(None, [row["notes"], said]))
                codes = dict.fromkeys([*row["note_codes"].split(), UNUSED])
                row["note_codes"] = " ".join(codes)
            own = {(f"{OF_RUN}{name}" if name in point else name): row[name] for name in row}
            rows.append({**point, **own})
        if not rows:
            raise self.errors[0]
        return Table(rows)

    def error_at(self, point: Point) -> LabError | None:
        """The reason why a point has no results; None if it has results."""
        found = self._found[point]
        return None if isinstance(found, Table) else found

    @cached_property
    def _found(self) -> Mapping[Point, Table | LabError]:
        """The results of each point, or the error: its runs do not exist or cannot be read."""
        return {
            one: attempted(one.study.results) if one.error is None else one.error
            for one in self.points
        }

    def _same(self, condition: str) -> str:
        """The note for a condition that has the same run at several points; empty for others."""
        return same_run(self.same.get(condition, ()))

    def __repr__(self) -> str:
        return f"<Grid {self._words()}>"

    def _repr_html_(self) -> str:
        return f"<p>Grid {escape(self._words())}</p>"

    def _words(self) -> str:
        lacking = sum(one.error is not None for one in self.points)
        without = f", {lacking} without runs (see lacking)" if lacking else ""
        return (
            f"of {self.lab.name} over {in_words(self.over)}: {len(self.points)} points{without}, "
            f"{in_runs(len(self.keys))}"
        )


def attempted(function: Callable[..., T], *given: Any) -> T | LabError:
    """The value of a function, or the LabError that it raised."""
    try:
        return function(*given)
    except LabError as error:
        return error


def _rows(
    tables: Iterable[tuple[Point, Table]],
) -> Iterator[tuple[Mapping[str, Scalar], dict[str, Any]]]:
    """The rows of each point's table, with the values of the point."""
    for point, table in tables:
        for row in table.to_dict("records"):
            yield point.values, {str(name): value for name, value in row.items()}


def in_words(over: Axes) -> str:
    """`rate_mbit 50, 100 and delay_ms 10, 50`."""
    return " and ".join(f"{name} {', '.join(map(plain, one))}" for name, one in over.items())


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
    recorded) does not affect the others; `grid.lacking` gives the reason. `fresh` and `jobs` are
    those of `labs.studies.study.study`, which also describes recorded runs and several kernels.
    """
    if over is None:
        return studies.study(p, fresh=fresh, jobs=jobs)
    varied, wanted = varied_points(p, over)
    lab = lab_of(p)
    if p.testbed == RECORDED or Path(p.runs).name.endswith(ENDINGS):
        found = [attempted(studies.study, one) for one in wanted]
    else:
        found = _performed(lab, wanted, varied, fresh, jobs)
    errors = [one for one in found if isinstance(one, LabError)]
    if len(errors) == len(found):
        raise errors[0]
    pairs = zip(wanted, found, strict=True)
    return Grid(p, varied, tuple(_point(one, varied, of_it, lab) for one, of_it in pairs), lab)


def varied_points(
    p: LabParameters, over: Mapping[str, object]
) -> tuple[Axes, tuple[LabParameters, ...]]:
    """The checked axes, including that of several kernels, and the parameters of every point."""
    varied = axes(type(p), over)
    if p.testbed in ON_ANY_KERNEL:
        varied = with_kernels(p, varied)
    elif KERNEL in varied:
        raise BadInput(
            f"the testbed {p.testbed} has a kernel of its own, so {KERNEL} cannot be varied. "
            f"Remove it, or use one of the testbeds {', '.join(ON_ANY_KERNEL)}"
        )
    return varied, points(p, varied)


def _performed(
    lab: Lab, wanted: tuple[LabParameters, ...], varied: Axes, fresh: bool, jobs: int | None
) -> list[Study | LabError]:
    """The study of each point, or its error; all runs in virtual time share one pool."""
    # Performing runs needs a Unix system; reading recorded ones does not.
    from labs.launch import launch  # noqa: PLC0415
    from labs.launch.plan import titles  # noqa: PLC0415

    names = [" ".join(f"{name} {plain(getattr(p, name))}" for name in varied) for p in wanted]
    found: list[Study | LabError] = []
    if wanted[0].testbed == "virtual":
        distinct = launch.distinct_runs(launch.plan_points(lab, wanted, names))
        rounds = [(wanted, names, "", [one.title for one in distinct])]
    else:
        named = zip(wanted, names, strict=True)
        rounds = [((p,), [name], f", {name}", titles(lab, p)) for p, name in named]
    for some, their_names, title, runs in rounds:
        with Bar(f"{lab.name}{title}", runs) as bar:
            made = launch.run_points(
                lab, some, fresh=fresh, jobs=jobs, progress=bar.tell, names=their_names
            )
        found += [
            one if isinstance(one, LabError) else attempted(studies.of_made, one, p, lab)
            for one, p in zip(made, some, strict=True)
        ]
    return found


def _point(p: LabParameters, varied: Axes, found: Study | LabError, lab: Lab) -> Point:
    values = {name: getattr(p, name) for name in varied}
    if isinstance(found, Study):
        return Point(values, found)
    without = Study(p, (), Path(p.runs), None, False, lab=lab, lacks=str(found))
    return Point(values, without, found)


__all__ = ["Grid", "Point", "study"]
