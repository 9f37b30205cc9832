"""A heat map: a column of a table over two parameters with many values, in shaded cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar

from labs.drive.parameters.declare import plain
from labs.read.display.format import in_three_digits
from labs.read.figures.axes import Axis
from labs.read.figures.declaration import Declared
from labs.read.figures.plot import Look, Plot, Trace, points, text_at
from labs.read.figures.style import VERMILION

if TYPE_CHECKING:
    from pandas import DataFrame

SHADES = ((0.0, "rgba(0,114,178,0.04)"), (1.0, "rgba(0,114,178,0.42)"))
"""Translucent, so that numbers on them are legible in print and on a dark screen."""
MOST_NUMBERED = 8
"""The maximum number of columns of cells whose numbers are legible on a phone."""
LEAST_PX, MOST_PX, ROW_PX = 240, 620, 34
Cells = dict[tuple[Any, Any], float]
"""A value for each pair of x and y."""


@dataclass(frozen=True, kw_only=True)
class HeatMap(Declared):
    """The column of `value` over those of `x` and `y`, whose values are evenly spaced.

    There is one row per pair of values. Cells contain numbers if there are few columns; otherwise
    there is a colour scale. `named` makes the words of a value of an axis. Numbers are bold from
    `bold_pct` of the largest one on. Cells whose rows have `framed` have a frame, which is called
    `frames`.
    """

    frame_px: ClassVar[int] = 190
    value: Axis
    x: Axis
    y: Axis
    named: Callable[[Any], object] = plain
    bold_pct: float = inf
    framed: str = ""
    frames: str = ""
    row_px: int = ROW_PX
    least_px: int = LEAST_PX

    def panel(self, rows: DataFrame, sources: tuple[Any, ...]) -> tuple[Plot, float]:
        """The pair of axes with all cells, and its height in pixels."""
        across, up = map(self.axis, (self.x, self.y))
        xs, ys = (sorted(rows[axis.column].unique().tolist()) for axis in (across, up))
        cells, numbered = self._cells(rows), len(xs) <= MOST_NUMBERED
        plot = Plot(
            [self._shades(cells, xs, ys, numbered=numbered)],
            replace(across, category=True).layout(),
            replace(up, category=True).layout(),
            annotations=self._written(cells) if numbered else [],
        )
        if self.framed and rows[self.framed].any():
            plot.traces.append(self._frames(rows[rows[self.framed]]))
        return plot, min(MOST_PX, max(self.least_px, self.row_px * len(ys)))

    def _cells(self, rows: DataFrame) -> Cells:
        pairs = zip(rows[self.x.column], rows[self.y.column], strict=True)
        return dict(zip(pairs, rows[self.value.column].astype(float), strict=True))

    def _names(self, values: Iterable[Any]) -> list[object]:
        return [self.named(value) for value in values]

    def _shades(
        self, cells: Cells, xs: Sequence[Any], ys: Sequence[Any], *, numbered: bool
    ) -> dict[str, Any]:
        title = self.axis(self.value).title
        return {
            "type": "heatmap",
            "x": self._names(xs),
            "y": self._names(ys),
            "z": [[cells.get((at_x, at_y)) for at_x in xs] for at_y in ys],
            "colorscale": SHADES if numbered else "Cividis",
            "showscale": not numbered,
            "colorbar": {"thickness": 12, "outlinewidth": 0},
            "xgap": 2 * numbered,
            "ygap": 2 * numbered,
            "hovertemplate": f"%{{x}}, %{{y}}: %{{z:.4g}}<extra>{title}</extra>",
        }

    def _written(self, cells: Cells) -> list[dict[str, Any]]:
        enough = self.bold_pct / 100 * max(cells.values())
        return [
            text_at(self.named(x), self.named(y), f"<b>{words}</b>" if value >= enough else words)
            for (x, y), value in cells.items()
            for words in [in_three_digits(value)]
        ]

    def _frames(self, rows: DataFrame) -> Trace:
        xs, ys = (self._names(rows[axis.column]) for axis in (self.x, self.y))
        trace = points(xs, ys, self.frames, Look(VERMILION, symbol="square-open", size=38))
        trace["marker"]["line"]["width"] = 3
        return {**trace, "hoverinfo": "skip"}

    def text_of(self, rows: DataFrame) -> str:
        """The smallest and the largest value, each with its place."""
        records = rows.to_dict("records")
        low, high = (
            end(records, key=lambda row: float(row[self.value.column])) for end in (min, max)
        )
        return f"{self.title_of(rows)}: from {self._place(low)} to {self._place(high)}."

    def _place(self, row: Mapping[Any, Any]) -> str:
        at = ", ".join(f"{axis.column} {plain(row[axis.column])}" for axis in (self.x, self.y))
        return f"{in_three_digits(float(row[self.value.column]))} at {at}"

    def table_of(self, rows: DataFrame) -> DataFrame:
        """Both parameters and the value of each cell."""
        return rows[[self.x.column, self.y.column, self.value.column]]
