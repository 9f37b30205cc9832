"""A heat map: a column of a table over two parameters with many values, in shaded cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any

from labs.drive.parameters.declare import plain
from labs.read.display.format import in_three_digits
from labs.read.figures.axes import Axis
from labs.read.figures.declaration import Declared
from labs.read.figures.plot import Look, Plot, points
from labs.read.figures.style import BLACK, VERMILION

if TYPE_CHECKING:
    from pandas import DataFrame

SHADES = ((0.0, "rgba(0,114,178,0.04)"), (1.0, "rgba(0,114,178,0.42)"))
"""Translucent, so that numbers on them are legible in print and on a dark screen."""
MOST_NUMBERED = 8
"""The maximum number of columns of cells whose numbers are legible on a phone."""
LEAST_PX, MOST_PX, ROW_PX = 240, 620, 46


@dataclass(frozen=True, kw_only=True)
class HeatMap(Declared):
    """The column of `value` over those of `x` and `y`, whose values are evenly spaced.

    There is one row per pair of values. Cells contain numbers if there are few columns; otherwise
    there is a colour scale. Numbers are bold from `bold_pct` of the largest one on. Cells whose
    rows have `framed` have a frame, which is called `frames`.
    """

    value: Axis
    x: Axis
    y: Axis
    bold_pct: float = inf
    framed: str = ""
    frames: str = ""

    def panel(self, rows: DataFrame, sources: tuple[Any, ...]) -> Plot:
        """The pair of axes with all cells."""
        value, across, up = map(self.axis, (self.value, self.x, self.y))
        cells = rows.pivot(index=up.column, columns=across.column, values=value.column)
        cells = cells.astype(float)
        numbered = len(cells.columns) <= MOST_NUMBERED
        enough = self.bold_pct / 100 * float(rows[value.column].max())
        shades = {
            "type": "heatmap",
            "name": value.words,
            "showlegend": False,
            "x": [*map(across.written or plain, cells.columns)],
            "y": [*map(up.written or plain, cells.index)],
            "z": cells.to_numpy().tolist(),
            "colorscale": SHADES if numbered else "Cividis",
            "showscale": not numbered,
            "colorbar": {"thickness": 12, "outlinewidth": 0},
            "hovertemplate": f"%{{x}}, %{{y}}: %{{z:.4g}}<extra>{value.title}</extra>",
        }
        if numbered:
            texts = cells.map(lambda n: f"<b>{_digits(n)}</b>" if n >= enough else _digits(n))
            shades |= {"text": texts.to_numpy().tolist(), "texttemplate": "%{text}"}
            shades |= {"textfont": {"size": 12, "color": BLACK}, "xgap": 2, "ygap": 2}
        x, y = (replace(axis, category=True).layout() for axis in (across, up))
        plot = Plot([shades], x, y, min(MOST_PX, max(LEAST_PX, ROW_PX * len(cells))))
        if self.framed and rows[self.framed].any():
            some = rows[rows[self.framed]]
            xs, ys = (some[axis.column].map(axis.written or plain) for axis in (across, up))
            frames = points(xs, ys, self.frames, Look(VERMILION, symbol="square-open", size=38))
            frames["marker"]["line"]["width"] = 3
            plot.traces.append({**frames, "hoverinfo": "skip"})
        return plot

    def text_of(self, rows: DataFrame) -> str:
        """The smallest and the largest value, each with its place."""
        in_order = rows.sort_values(self.value.column).to_dict("records")
        low, high = self._place(in_order[0]), self._place(in_order[-1])
        return f"{self.title_of(rows)}: from {low} to {high}."

    def _place(self, row: Mapping[Any, Any]) -> str:
        at = ", ".join(f"{axis.column} {plain(row[axis.column])}" for axis in (self.x, self.y))
        return f"{in_three_digits(float(row[self.value.column]))} at {at}"

    def table_of(self, rows: DataFrame) -> DataFrame:
        """Both parameters and the value of each cell."""
        return rows[[self.x.column, self.y.column, self.value.column]]


def _digits(value: float) -> str:
    return in_three_digits(value) if value == value else ""
