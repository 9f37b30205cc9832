"""Choices on the x axis: upright bars side by side, or markers on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labs.drive.parameters.declare import plain
from labs.read.figures.axes import Axis
from labs.read.figures.declaration import Declared
from labs.read.figures.plot import Look, Plot, Trace, apart, points
from labs.read.figures.style import BLACK

if TYPE_CHECKING:
    from pandas import DataFrame

BARS = 0.8
"""The width of the bars of a choice; a single one has half of it."""
LETTER_PX, PHONE_PX = 7, 250
"""The width of a letter, and the width of all panels on a phone."""


@dataclass(frozen=True, kw_only=True)
class Choices(Declared):
    """The column `y` for each of the `choices` of the column `x`, in their order.

    Each line of `looks`, a value of the column `by`, has a bar of a choice, named by `named`; a
    logarithmic axis has no zero, so it has markers. Predictions are black lines.
    """

    x: Axis
    y: Axis
    choices: tuple[Any, ...]
    looks: Mapping[Any, Look]
    named: Mapping[Any, str]
    by: str | None = None
    predicted: str = ""
    upright: bool = False
    height: int = 300

    def panel(self, rows: DataFrame, sources: tuple[Any, ...]) -> tuple[Plot, float]:
        """The pair of axes with all bars, and its height in pixels."""
        traces = [*self._measured(rows)]
        last = len(self.choices) - 0.45
        x = {
            "title": {"text": self.x.title},
            "tickvals": [*range(len(self.choices))],
            "ticktext": [*map(plain, self.choices)],
            "tickangle": -90 if self.upright else 0,
            "showgrid": False,
            "range": [-0.55, last],
        }
        return Plot(traces, x, self.y.layout()), self.height

    def _measured(self, rows: DataFrame) -> Iterator[Trace]:
        width = BARS / max(2, len(self.looks))
        unit = self.y.unit
        for place, (line, look) in enumerate(self.looks.items()):
            some = rows[rows[self.by] == line] if self.by else rows
            offset = width * (place - (len(self.looks) - 1) / 2)
            xs = [self.choices.index(value) + offset for value in some[self.x.column]]
            name, ys = self.named[line], some[self.y.column].astype(float).tolist()
            more = {
                "legendgroup": name,
                "hovertemplate": f"{name}: %{{y:.4g}} {unit}<extra></extra>",
            }
            if self.y.log:
                yield points(xs, ys, name, look, **more)
            else:
                bars = {"type": "bar", "x": xs, "y": ys, "width": 0.9 * width, "name": name}
                yield {**bars, "marker": {"color": look.colour}, **more}
            if self.predicted:
                yield self._predicted(xs, some[self.predicted], 0.45 * width, name)

    def _predicted(self, xs: list[float], values: Any, half: float, name: str) -> Trace:
        """A line across each bar."""
        ends = apart((at - half for at in xs), (at + half for at in xs))
        template = f"predicted, {name}: %{{y:.4g}} {self.y.unit}<extra></extra>"
        ys = values.astype(float).tolist()
        look = Look(BLACK, width=2)
        return points(ends, apart(ys, ys), "predicted", look, "lines", hovertemplate=template)


def upright_px(choices: tuple[Any, ...], across: int) -> int:
    """The height of vertical labels of choices; 0 if horizontal ones fit on a phone, in so many
    panels side by side."""
    longest = max(len(plain(value)) for value in choices)
    fits = (longest + 1) * LETTER_PX * len(choices) * across <= PHONE_PX
    return 0 if fits else (longest - 1) * LETTER_PX
