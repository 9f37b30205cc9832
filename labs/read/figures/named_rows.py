"""What forms with a name above each row share: places in pixels, so a narrow page has room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from labs.read.display.format import is_known
from labs.read.figures.declaration import Declared
from labs.read.figures.marks import Mark, across_all
from labs.read.figures.plot import Plot, Trace, text_at
from labs.read.figures.style import Steps, plain

if TYPE_CHECKING:
    from pandas import DataFrame

Record = Mapping[Any, Any]


@dataclass(frozen=True, kw_only=True)
class NamedRows(Declared):
    """A row for each value of the column `row`; with `by`, a mark for each value of that column.
    One unit of the y axis is one pixel."""

    frame_px: ClassVar[int] = 190
    left_px: ClassVar[int] = 20
    row: str = "condition"
    by: str | None = None
    marks: tuple[Mark, ...] = ()

    def finish(
        self, plot: Plot, names: Mapping[float, str], height: float, rows: DataFrame
    ) -> tuple[Plot, float]:
        """The plot with its y axis and the marks across all rows, whose names are at these tops."""
        texts = [*map(plain, names.values())]
        plot.y = {"visible": False, "tickvals": [*names], "ticktext": texts, "showgrid": False}
        plot.y["range"] = [height, -4]
        across_all(plot, self.marks, rows)
        return plot, height

    def steps(self, traces: Sequence[Trace], layout: Mapping[str, Any]) -> Steps:
        """The end of each row."""
        up = layout["yaxis"]
        ends = [*(top - 1 for top in up["tickvals"][1:]), up["range"][0]]
        return {"y": [*zip(ends, up["ticktext"], strict=True)]}

    def with_values(self, rows: DataFrame, names: Sequence[str]) -> DataFrame:
        """The rows with what names them and these columns, of those that there are."""
        shown = dict.fromkeys([self.row, self.by, *names])
        return rows[[name for name in shown if name in rows]]


def number(row: Record, column: str) -> float | None:
    """The value of a column, if there is one."""
    value = row.get(column) if column else None
    return float(value) if is_known(value) and value is not None else None


def write_above(plot: Plot, top: float, words: str) -> None:
    """Add words at the left end of a plot, below `top`."""
    place: dict[str, Any] = {"xref": "x domain", "xanchor": "left", "yanchor": "top"}
    plot.annotations.append(text_at(0, top, words, align="left", **place))
