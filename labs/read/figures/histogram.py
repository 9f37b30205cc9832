"""Shares of values in even steps: an upright bar for each step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any

from labs.read.figures.axes import Axis
from labs.read.figures.declaration import Declared
from labs.read.figures.marks import Mark, across_all
from labs.read.figures.plot import Plot
from labs.read.figures.style import BLUE

if TYPE_CHECKING:
    from pandas import DataFrame, Series

BEGIN, END, SHARE = "begin", "end", "share_pct"
"""The columns of a table of steps."""
SHARES = Axis(SHARE, "share", "%", range=(0, 104))


@dataclass(frozen=True, kw_only=True)
class Histogram(Declared):
    """A bar for each row of a table of `in_steps`, from its begin to its end on the axis `x`."""

    x: Axis
    marks: tuple[Mark, ...] = ()
    height: int = 200

    @cached_property
    def across(self) -> Axis:
        """The x axis."""
        return self.axis(self.x)

    def panel(self, rows: DataFrame, sources: tuple[Any, ...]) -> tuple[Plot, float]:
        """The pair of axes with all bars, and its height in pixels."""
        begin, end, unit = rows[BEGIN], rows[END], self.across.unit
        bars = {
            "type": "bar",
            "x": ((begin + end) / 2).tolist(),
            "y": rows[SHARE].tolist(),
            "width": (end - begin).tolist(),
            "name": SHARES.words,
            "showlegend": False,
            "marker": {"color": BLUE, "line": {"color": BLUE, "width": 1}},
            "customdata": [
                f"{low:g} to {high:g} {unit}" for low, high in zip(begin, end, strict=True)
            ],
            "hovertemplate": "%{y:.1f} %: %{customdata}<extra></extra>",
        }
        plot = Plot([bars], self.across.layout(), SHARES.layout())
        across_all(plot, self.marks, rows)
        return plot, self.height

    def text_of(self, rows: DataFrame) -> str:
        """The step with the largest share."""
        usual = rows.iloc[int(rows[SHARE].argmax())]
        unit = self.across.unit
        return f"{usual[SHARE]:.3g} % from {usual[BEGIN]:g} to {usual[END]:g} {unit}"

    def table_of(self, rows: DataFrame) -> DataFrame:
        """The steps with their shares."""
        return rows[[BEGIN, END, SHARE]]


def in_steps(values: Series[float], step: float) -> DataFrame:
    """The share of the values in each step that has some, in per cent of all values; those that are
    not known are in none."""
    shares = 100 * (values.dropna() // step * step).value_counts().sort_index() / len(values)
    begin = shares.index.astype(float)
    return shares.reset_index(drop=True).to_frame(SHARE).assign(**{BEGIN: begin, END: begin + step})


def even_step(longest: float, most: int) -> float:
    """The width of a step: 1, or 2, 5, 10 and so on if there would be more steps than `most`."""
    return next(step for step in _widths() if longest < most * step)


def _widths() -> Iterator[float]:
    return (digit * 10.0**power for power in count() for digit in (1, 2, 5))
