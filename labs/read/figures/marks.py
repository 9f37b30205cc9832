"""Lines across a plot with their words: a limit, a reference, what the rows show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from labs.read.display.format import in_three_digits, size_in_words
from labs.read.figures.axes import Axis
from labs.read.figures.plot import Plot, Trace, text_at
from labs.read.figures.style import BLACK, GREY, ORANGE, PURPLE, SKY, VEIL

if TYPE_CHECKING:
    from pandas import DataFrame

FAINT = (ORANGE, SKY, PURPLE)
"""Colours of lines in which words are too faint to read."""
LETTERS = 18
"""How long a line of words beside an upright line may be."""
WORDS, POINT, LINE = 30.0, 10.0, 1.0
"""What it costs to hide a part of other words, a point, a place of a line."""
LETTER_PX, TEXT_LINE_PX, SHIFT_PX, POINT_PX = 7.0, 17.0, 6, 8
WIDTHS_PX = {400.0: 1, 760.0: 3}
"""The widths of a plot for which words are placed, on a phone and on a page, with their weights:
where both cannot be served, the wide one is."""
MOST_PLACES = 200
"""Of a trace: so many are looked at."""
HEIGHTS = tuple(step / 25 for step in range(1, 24))
"""Where words can stand, as shares of the height of the plot."""
AT_LEFT: Mapping[str, Any] = {"xref": "x domain", "xanchor": "left"}


@dataclass(frozen=True)
class Mark:
    """A line at a value of an axis, with words beside it.

    `at` is a number, the name of a column (its median), or computed from the rows; None draws
    nothing. `text` is a sentence, or computed from the rows; in it `{digits}` and `{size}` stand
    for the value.
    """

    at: float | str | Callable[[DataFrame], float | None]
    text: str | Callable[[DataFrame], str] = ""
    axis: str = "x"
    colour: str = GREY
    dash: str = "dot"
    width: float = 1.5
    until: float | None = None
    """The other end of a shaded band that begins at the value."""

    def value(self, rows: DataFrame) -> float | None:
        """Where the line is."""
        if isinstance(self.at, str):
            return float(rows[self.at].astype(float).median())
        return self.at(rows) if callable(self.at) else self.at

    @property
    def ink(self) -> str:
        """The colour of the words: black where that of the line is too faint to read."""
        return BLACK if self.colour in FAINT else self.colour

    def words(self, rows: DataFrame, value: float) -> str:
        """What is written beside the line."""
        text = self.text(rows) if callable(self.text) else self.text
        return text.format(digits=in_three_digits(value), size=size_in_words(value))

    def shape(self, value: float) -> dict[str, Any]:
        """The line or the band as plotly has it."""
        this, other = ("x", "y") if self.axis == "x" else ("y", "x")
        across = {f"{other}0": 0, f"{other}1": 1, f"{other}ref": f"{other} domain"}
        end = value if self.until is None else self.until
        ends = {f"{this}0": value, f"{this}1": end, f"{this}ref": this, **across}
        if self.until is None:
            line = {"color": self.colour, "dash": self.dash, "width": self.width}
            return {"type": "line", **ends, "line": line}
        filled = {"fillcolor": self.colour, "opacity": 0.18, "layer": "below"}
        return {"type": "rect", **ends, **filled, "line": {"width": 0}}


def with_values(marks: Sequence[Mark], rows: DataFrame) -> list[tuple[Mark, float]]:
    """The marks that have a value, each with it."""
    drawn = [(mark, value) for mark in marks if (value := mark.value(rows)) is not None]
    return [(mark, value) for mark, value in drawn if value == value]


@dataclass
class Space:
    """The space of a plot of a height in pixels: its places in shares of width and height, and what
    it costs to hide each. Ends are those of plotly: logarithms on a logarithmic axis."""

    x: Axis
    x_ends: tuple[float, float]
    y: Axis
    y_ends: tuple[float, float]
    height_px: float
    places: list[tuple[float, float, float]] = field(default_factory=list)

    def across(self, value: float) -> float:
        """A value of the x axis as a share of the plot's width."""
        low, high = self.x_ends
        return (self.x.scaled(value) - low) / ((high - low) or 1)

    def up(self, value: float) -> float:
        """A value of the y axis as a share of the plot's height."""
        low, high = self.y_ends
        return (self.y.scaled(value) - low) / ((high - low) or 1)

    def add(self, trace: Trace) -> None:
        """A trace that words should leave free."""
        cost = POINT if "markers" in trace.get("mode", "markers") else LINE
        drawn = [
            (x, y)
            for x, y in zip(trace["x"], trace["y"], strict=True)
            if x is not None and y is not None and y == y and (y > 0 or not self.y.log)
        ]
        some = drawn[:: 1 + len(drawn) // MOST_PLACES]
        self.places += [(self.across(x), self.up(y), cost) for x, y in some]

    def is_free(self, value: float, levels: Iterable[float]) -> bool:
        """Whether a line of text has room between a value and these levels above it."""
        least = TEXT_LINE_PX / self.height_px
        return all(self.up(level) - self.up(value) > least for level in levels)

    def place(self, value: float, words: str) -> tuple[str, float]:
        """The side of an upright line with more room for words (their `xanchor`), and the height at
        which they hide the least."""
        lines, at = words.split("<br>"), self.across(value)
        wide_px = SHIFT_PX + POINT_PX + LETTER_PX * max(map(len, lines))
        line_tall = TEXT_LINE_PX / self.height_px
        tall = line_tall * len(lines)
        side, before, behind = ("right", 1, 0) if at > 0.5 else ("left", 0, 1)
        near: list[tuple[float, float]] = []
        ends = {at}
        for plot_px, weight in WIDTHS_PX.items():
            left, right = at - before * wide_px / plot_px, at + behind * wide_px / plot_px
            near += [(y, weight * cost) for x, y, cost in self.places if left <= x <= right]
            ends |= {left, right}

        def hidden(bottom: float) -> float:
            return sum(cost for y, cost in near if bottom <= y <= bottom + tall)

        bottom = min((height for height in HEIGHTS if height + tall < 1), key=hidden, default=0.0)
        for x, line in product(ends, range(len(lines) + 1)):
            self.places.append((x, bottom + line * line_tall, WORDS))
        return side, bottom


def draw_marks(plot: Plot, marks: Sequence[Mark], rows: DataFrame, space: Space) -> None:
    """Add the lines of the marks to a plot, and their words where they hide the least."""
    drawn = with_values(marks, rows)
    levels = sorted({value for mark, value in drawn if mark.axis == "y"})
    for mark, value in drawn:
        plot.shapes.append(mark.shape(value))
        words = mark.words(rows, value)
        if words and mark.axis == "x":
            plot.annotations.append(_beside(mark, value, words, space))
        elif words:
            higher = [level for level in levels if level > value]
            anchor = "bottom" if space.is_free(value, higher) else "top"
            place = {**AT_LEFT, "yanchor": anchor, "size": 13, "bgcolor": VEIL}
            at = space.y.scaled(value)
            plot.annotations.append(text_at(0.005, at, words, mark.ink, **place))


def _beside(mark: Mark, value: float, words: str, space: Space) -> dict[str, Any]:
    if "<br>" not in words:
        words = "<br>".join(wrap(words, LETTERS, break_long_words=False))
    side, height = space.place(value, words)
    shift: dict[str, Any] = {
        "xshift": -SHIFT_PX if side == "right" else SHIFT_PX,
        "xanchor": side,
        "align": side,
    }
    place = {**shift, "yref": "y domain", "yanchor": "bottom", "size": 13, "bgcolor": VEIL}
    return text_at(space.x.scaled(value), height, words, mark.ink, **place)


def across_all(plot: Plot, marks: Sequence[Mark], rows: DataFrame, axis: Axis) -> None:
    """Add upright lines over the rows of a plot, with their words at the top."""
    for mark, value in with_values(marks, rows):
        plot.shapes.append(mark.shape(value))
        if words := mark.words(rows, value):
            place = {"yref": "y domain", "xanchor": "right", "yanchor": "bottom"}
            plot.annotations.append(text_at(axis.scaled(value), 1, words, mark.ink, **place))
