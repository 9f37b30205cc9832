"""What forms with a name above each row share: places in pixels, so a narrow page has room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labs.read.figures.axes import Axis
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

    row: str = "condition"
    by: str | None = None
    marks: tuple[Mark, ...] = ()

    def groups(self, rows: DataFrame) -> list[tuple[Any, list[dict[Any, Any]]]]:
        """The records of each row of the figure, with what names it."""
        groups: dict[Any, list[dict[Any, Any]]] = {}
        for record in rows.to_dict("records"):
            groups.setdefault(record[self.row], []).append(record)
        return [*groups.items()]

    def finish(self, plot: Plot, names: Mapping[float, str], axis: Axis, rows: DataFrame) -> Plot:
        """The plot with its y axis and the marks across all rows, whose names are at these tops."""
        texts = [*map(plain, names.values())]
        plot.y = {"visible": False, "tickvals": [*names], "ticktext": texts, "showgrid": False}
        plot.y["range"] = [plot.height, -4]
        plot.more["showlegend"] = True
        across_all(plot, self.marks, rows, axis)
        return plot

    def steps(self, traces: Sequence[Trace], layout: Mapping[str, Any]) -> Steps:
        """The end of each row."""
        up = layout["yaxis"]
        ends = [*(top - 1 for top in up["tickvals"][1:]), up["range"][0]]
        return {"y": [*zip(ends, up["ticktext"], strict=True)]}


def write_above(plot: Plot, words: str) -> None:
    """Add words at the left end of a plot, below all that it has."""
    place = {"xref": "x domain", "xanchor": "left", "yanchor": "top", "align": "left"}
    plot.annotations.append(text_at(0, plot.height, words, **place))
