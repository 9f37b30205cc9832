"""A batch for notebooks (`labs.batch`): its table, charts, best and worst rows, and deviations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pandas import DataFrame

from labs.batches.deviations import describe_nearness, describe_range, deviations, meaningful
from labs.batches.moved import Moved, moved
from labs.drive.parameters.declare import Scalar, parameter, plain, unknown, validate
from labs.drive.parameters.notebook_cell import beside_the_notebooks
from labs.errors import BadInput
from labs.read.batch_index import Index, file_of, read_index
from labs.read.batch_index_schema import DAMAGED, FAILED, MADE, RESULT, STATUSES, IndexColumn
from labs.read.display.format import few
from labs.read.display.provenance import of_points
from labs.read.display.rich_output import Table, Words
from labs.read.figures.parameter_layout import CONDITION, restricted
from labs.read.figures.points import Points
from labs.read.runs import recorded

EXAMPLE = "batch-example.parquet"
"""The index that comes with the project."""
SHOWN = 12
"""The maximum number of values of an axis that are listed."""
SMALLER_IS_BETTER = frozenset({"s", "ms", "us", "µs", "ns"})
"""Units of figures whose smallest value is the best."""


@dataclass(frozen=True, kw_only=True)
class ReportParameters:
    """The parameters of a notebook that reports on a batch."""

    index: str = parameter(
        "",
        form="a folder of a batch, its index.parquet, or nothing for the example",
        help="the batch: its folder, or its index",
    )
    earlier: str = parameter(
        "",
        form="as for INDEX, or nothing for no comparison",
        help="an earlier batch to compare with",
    )
    column: str = parameter(
        "",
        form="a column of the results, or nothing for the headline figure",
        help="the figure to draw and rank",
    )

    def __post_init__(self) -> None:
        validate(self)


@dataclass(frozen=True, eq=False, repr=False)
class Batch(Points):
    """The results of many points of a lab, from an index. The lab itself is not needed."""

    index: Index

    @property
    def axes(self) -> Mapping[str, tuple[Scalar, ...]]:
        return self.index.head.axes

    @property
    def units(self) -> Mapping[str, str]:
        return {name: column.unit for name, column in self.index.columns.items() if column.unit}

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of points, rows and distinct runs, and of rows by status."""
        rows = self.index.frame
        by_status = Counter(rows["status"])
        return {
            "points": int(rows["point"].nunique()),
            "rows": len(rows),
            "runs": int(rows["key"].nunique()),
            **{status: by_status[status] for status in STATUSES},
        }

    @property
    def about(self) -> Table:
        """A description of the batch: its size, its axes with their values, and what made it."""
        head, made = self.index.head, self._made
        about = {
            "title": head.title,
            "results": self.summary(),
            "conditions": ", ".join(dict.fromkeys(self.index.frame[CONDITION])),
            "written by": f"labs {head.labs}",
        }
        for name, values in self.axes.items():
            text = few(list(map(plain, values)), SHOWN)
            about[f"axis {name}"] = f"{text} {self.units.get(name, '')}".strip()
        for name, column in (("testbed", "run_testbed"), ("kernels", "run_kernel")):
            if column in made:
                about[name] = ", ".join(dict.fromkeys(made[column].dropna()))
        return Table({"batch": list(about), "content": list(about.values())})

    @cached_property
    def table(self) -> Table:
        """All rows and columns: the varied parameters first, then the condition, the status, the
        results, and everything else."""
        results = [name for name, column in self.index.columns.items() if column.role == RESULT]
        first = [*self._places, "status", *results]
        rest = [name for name in self.index.columns if name not in first]
        return self._as_table(self.index.frame[[*first, *rest]])

    @property
    def results(self) -> Table:
        """One row per point and condition whose run was made: the varied parameters, the condition,
        the results that the lab does not hide and that at least half of the rows have, and notes.
        `table` has all of them."""
        made = self._made
        shown = [
            name
            for name, column in self.index.columns.items()
            if column.role == RESULT
            and not column.hidden
            and 2 * made[name].count() >= max(1, len(made))
        ]
        notes = [name for name in ("notes",) if name in made]
        return self._as_table(made[[*self._places, *shown, *notes]])

    @property
    def failures(self) -> Table:
        """The rows whose run failed or cannot be read, with the reason."""
        rows = self.index.frame
        failed = rows[rows["status"].isin([FAILED, DAMAGED])]
        return self._as_table(failed[[*self._places, "status", "message"]])

    def best(self, column: str | None = None, n: int = 5) -> Table:
        """The rows with the best values of a column: the largest, or for times the smallest."""
        return self._ranked(self.column(column), n, best=True)

    def worst(self, column: str | None = None, n: int = 5) -> Table:
        """The rows with the worst values of a column; see `best`."""
        return self._ranked(self.column(column), n, best=False)

    def _ranked(self, column: IndexColumn, n: int, *, best: bool) -> Table:
        ascending = best == (column.unit in SMALLER_IS_BETTER)
        every = meaningful(self._made, column)
        rows = every.sort_values(column.name, ascending=ascending, kind="stable").head(n)
        more = [name for name in (column.predicted_by, "notes") if name in rows]
        return self._as_table(rows[[*self._places, column.name, *more]])

    def off(self, n: int = 10) -> Table:
        """The figures with the largest deviations from their predictions. Deviations are ratios, of
        which 2 and 0.5 are equally large."""
        return Table(self._deviations.head(n))

    def moved(self, earlier: Batch | str | Path) -> Moved:
        """The changes since an earlier batch, in results and in the bytes of runs. With an empty
        name, nothing is compared."""
        if earlier == "":
            return Moved(Table(), Table(), {})
        other = earlier if isinstance(earlier, Batch) else batch(earlier)
        return moved(self.index, other.index)

    @property
    def words(self) -> Words:
        """The batch in two or three sentences, with figures."""
        sentences = [f"This batch has results {self.summary()}."]
        if self._default is not None:
            sentences.append(describe_range(self._places, self._made, self._default))
        if len(self._deviations):
            sentences.append(describe_nearness(self._places, self._deviations))
        return Words(" ".join(sentences))

    def column(self, name: str | None = None) -> IndexColumn:
        """A numeric column of the results: by its name, or the headline figure.

        BadInput for any other name, and if no headline figure has a value.
        """
        numeric = {
            column.name: column
            for column in self.index.columns.values()
            if column.role == RESULT and column.kind in (int, float)
        }
        if name:
            if name not in numeric:
                raise BadInput(unknown(name, numeric, "numeric column of the results"))
            return numeric[name]
        default = self._default
        if default is None:
            raise BadInput(
                f"no headline figure has a value in this batch. Name a column: {', '.join(numeric)}"
            )
        return default

    @property
    def _default(self) -> IndexColumn | None:
        made = self._made
        every = self.index.columns.values()
        return next(
            (column for column in every if column.headline and made[column.name].notna().any()),
            None,
        )

    @property
    def _places(self) -> list[str]:
        """The columns that identify a row."""
        return [*self.axes, CONDITION]

    @cached_property
    def _made(self) -> DataFrame:
        rows = self.index.frame
        return rows[rows["status"] == MADE]

    @cached_property
    def _deviations(self) -> DataFrame:
        return deviations(self._made, self.index.columns, self._places)

    def drawn(
        self, column: str | None, fixed: Mapping[str, object]
    ) -> tuple[DataFrame, IndexColumn]:
        """The rows whose figure has a meaning; of real-time repetitions one with the medians."""
        result = self.column(column)
        rows = restricted(meaningful(self._made, result), tuple(self.axes), fixed)
        if "repetition" not in rows or rows["repetition"].isna().all():
            return rows, result
        names = [result.name, *filter(None, [result.predicted_by])]
        medians = rows.groupby(self._places, sort=False)[names].transform("median")
        return rows.assign(**medians).drop_duplicates(self._places), result

    def caption(self, table: DataFrame) -> str:
        of_run = {"testbed": table["run_testbed"]} if "run_testbed" in table else {}
        facts = table.assign(**of_run).drop(columns="source", errors="ignore")
        return of_points(facts, list(self.axes))

    def _as_table(self, rows: DataFrame) -> Table:
        table = Table(rows.reset_index(drop=True))
        table.attrs["units"] = dict(self.units)
        return table

    def summary(self) -> str:
        axes = ", ".join(f"{name} ({len(values)})" for name, values in self.axes.items())
        counts = self.counts
        states = ", ".join(f"{counts[status]} {status}" for status in STATUSES if counts[status])
        return (
            f"of {self.index.head.lab} over {axes}: {counts['points']} points, "
            f"{counts['rows']} rows: {states or 'none'}"
        )


def batch(what: str | Path = "") -> Batch:
    """The batch in a folder, or of an index file; without a name, the project's example.

    No run is performed. BadInput if there is no index, Damaged if it cannot be read, Missing
    without the package pyarrow.
    """
    if what == "":
        return Batch(read_index(recorded.folder() / EXAMPLE))
    return Batch(read_index(file_of(beside_the_notebooks(str(what)))))


def check(p: ReportParameters) -> None:
    """BadInput or Damaged if an index or the column that the parameters name cannot be used."""
    batch(p.index).column(p.column)
    if p.earlier:
        batch(p.earlier)
