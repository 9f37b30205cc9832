"""What every declared figure has: rows, a title, a caption, a text alternative and a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from plotly.graph_objects import Figure

from labs.drive.condition import Group
from labs.read.display.provenance import of_table
from labs.read.figures.axes import Axis, Columns, declared
from labs.read.figures.plot import Plot, Trace, assembled
from labs.read.figures.style import LEGEND_ABOVE, NO_RUNS, Steps, dressed, nothing

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class RowsOf:
    """The rows of a table of results that a figure shows: those of some groups of conditions, with
    a value in each column of `having`, in the `order` of a column."""

    groups: tuple[str, ...] = ()
    having: tuple[str, ...] = ()
    order: str = ""

    def __call__(self, table: DataFrame) -> DataFrame:
        rows = table[table["group"].isin(self.groups)] if self.groups else table
        for column in self.having:
            rows = rows[rows[column].notna()]
        return rows.sort_values(self.order) if self.order else rows


def in_group(*groups: Group | str, having: Sequence[str] = (), order: str = "") -> RowsOf:
    """The rows of these groups of conditions, or of all; see `RowsOf`."""
    names = (group.name if isinstance(group, Group) else group for group in groups)
    return RowsOf(tuple(names), tuple(having), order)


@dataclass(frozen=True)
class Declared:
    """A figure as a value: it is drawn when it is called, with what `rows` takes.

    `rows` makes a table of a table of results, of studies or of runs; `empty` says why a figure has
    nothing to show. `of` is the lab's class `Results`, whose columns give words, units and
    predictions. `title`, `caption`, `describe` (the text alternative) and `table` (the numbers) are
    computed from the rows where a text does not suffice; what is not given follows from the form.
    `note` is a second line of the caption.
    """

    frame_px: ClassVar[int] = 172
    """The height around the plot: title, legend, axis and caption."""
    left_px: ClassVar[int] = 70
    title: str | Callable[[DataFrame], str]
    _: KW_ONLY
    rows: Callable[..., DataFrame] = RowsOf()
    of: type | None = None
    empty: str = NO_RUNS
    caption: Callable[[DataFrame], str] = of_table
    note: str | Callable[[DataFrame], str] = ""
    describe: Callable[[DataFrame], str] | None = None
    table: Callable[[DataFrame], DataFrame] | Mapping[str, str] | None = None

    def __call__(self, *sources: Any, **options: Any) -> Figure:
        # A table without rows has no columns either.
        if sources and all(getattr(source, "empty", False) for source in sources):
            return nothing(self.title_of(sources[0]), NO_RUNS)
        rows = self.rows(*sources, **options)
        if rows.empty:
            return nothing(self.title_of(rows), self.empty)
        return self.draw(rows, sources)

    @cached_property
    def columns(self) -> Columns:
        """The columns of the lab's results by name."""
        return declared(self.of)

    def axis(self, axis: Axis | str) -> Axis:
        """An axis, or that of a column, with the column's words and unit."""
        return (Axis(axis) if isinstance(axis, str) else axis).of(self.columns)

    def prediction_of(self, column: str) -> str:
        """The column with the predictions that a measured one declares; empty if there is none."""
        measured = self.columns.get(column)
        return (measured and measured.predicted_by) or ""

    def draw(self, rows: DataFrame, sources: tuple[Any, ...]) -> Figure:
        """The figure of rows, of which there is at least one; `sources` are what it is called
        with."""
        plot, height = self.panel(rows, sources)
        traces, layout = assembled([plot])
        layout |= {"barmode": "overlay", "showlegend": True, "legend": LEGEND_ABOVE}
        figure = self._finished(rows, traces, layout, self.frame_px + round(height))
        return figure.update_layout(margin_l=self.left_px)

    def panel(self, rows: DataFrame, sources: tuple[Any, ...]) -> tuple[Plot, float]:
        """The form as one plot among others, with its height in pixels."""
        raise NotImplementedError

    def steps(self, traces: Sequence[Trace], layout: Mapping[str, Any]) -> Steps:
        """The places up to which the figure can be shown, by their axis, each with its words."""
        return {}

    def text_of(self, rows: DataFrame) -> str:
        """The text alternative of the form, if the figure has none of its own."""
        raise NotImplementedError

    def table_of(self, rows: DataFrame) -> DataFrame:
        """The numbers that the form draws, if the figure has no table of its own."""
        raise NotImplementedError

    def title_of(self, rows: Any) -> str:
        """The title of the figure, or the heading of a panel."""
        return self.title(rows) if callable(self.title) else self.title

    def _finished(
        self, rows: DataFrame, traces: Sequence[Trace], layout: Mapping[str, Any], height: int
    ) -> Figure:
        """The figure with title, caption, text alternative, table and steps."""
        note = self.note(rows) if callable(self.note) else self.note
        return dressed(
            Figure([*traces]),
            layout,
            title=self.title_of(rows),
            caption="<br>".join(filter(None, [self.caption(rows), note])),
            height=height,
            tell=self.describe(rows) if self.describe else self.text_of(rows),
            table=self._numbers(rows),
            steps=self.steps(traces, layout),
        )

    def _numbers(self, rows: DataFrame) -> DataFrame:
        if self.table is None:
            return self.table_of(rows)
        if isinstance(self.table, Mapping):
            return rows[list(self.table)].rename(columns=dict(self.table))
        return self.table(rows)
