"""What every declared figure has: rows, a title, a caption, a text alternative and a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from plotly.graph_objects import Figure

from labs.guest.condition import Group
from labs.read.display.provenance import of_table
from labs.read.figures.axes import Axis, Columns, declared
from labs.read.figures.plot import Plot, Trace, assembled
from labs.read.figures.style import NO_RUNS, Steps, dressed, nothing

if TYPE_CHECKING:
    from pandas import DataFrame

FRAME_PX, LEFT_PX = 172, 20
"""The height around the plot: title, legend, axis and caption; the left margin without an axis."""


def in_group(*groups: Group | str, having: Sequence[str] = ()) -> Callable[[DataFrame], DataFrame]:
    """Makes the rows of a figure of a table of results: those of some groups of conditions, or of
    all, with a value in each column of `having`."""
    names = [group.name if isinstance(group, Group) else group for group in groups]

    def rows(table: DataFrame) -> DataFrame:
        chosen = table[table["group"].isin(names)] if names else table
        return chosen.dropna(subset=[*having])

    return rows


@dataclass(frozen=True)
class Declared:
    """A figure as a value: it is drawn when it is called, with what `rows` takes.

    `rows` makes a table of a table of results, of studies or of runs; `empty` says why a figure has
    nothing to show. `of` is the lab's class `Results`, whose columns give words, units and
    predictions. `title`, `caption`, `describe` (the text alternative) and `table` (the numbers) are
    computed from the rows where a text does not suffice; what is not given follows from the form.
    `note` is a second line of the caption.
    """

    title: str | Callable[[DataFrame], str]
    _: KW_ONLY
    rows: Callable[..., DataFrame] = lambda table: table
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
        return self.finished(rows, [self.panel(rows, sources)])

    def panel(self, rows: DataFrame, sources: tuple[Any, ...]) -> Plot:
        """The form as one plot among others."""
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

    def tell(self, rows: DataFrame) -> str:
        """The text alternative."""
        return self.describe(rows) if self.describe else self.text_of(rows)

    def finished(
        self,
        rows: DataFrame,
        plots: Sequence[Plot],
        head_px: float = 0.0,
        gap_px: float = 0.0,
        across: int = 1,
    ) -> Figure:
        """The figure of these plots with title, caption, text alternative, table and steps."""
        traces, layout, height = assembled(plots, head_px, gap_px, across)
        if not any(plot.y.get("visible", True) for plot in plots):
            layout["margin"] = {"l": LEFT_PX}
        note = self.note(rows) if callable(self.note) else self.note
        return dressed(
            Figure(traces),
            layout,
            title=self.title_of(rows),
            caption="<br>".join(filter(None, [self.caption(rows), note])),
            height=FRAME_PX + height,
            tell=self.tell(rows),
            table=self._numbers(rows),
            steps=self.steps(traces, layout),
        )

    def _numbers(self, rows: DataFrame) -> DataFrame:
        if self.table is None:
            return self.table_of(rows)
        if isinstance(self.table, Mapping):
            return rows[list(self.table)].rename(columns=dict(self.table))
        return self.table(rows)
