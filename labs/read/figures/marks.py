"""Lines across a plot with their words: a limit, a reference, what the rows show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import log10
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from labs.read.display.format import in_three_digits, size_in_words
from labs.read.figures.axes import Axis
from labs.read.figures.plot import Plot, text_at
from labs.read.figures.style import BLACK, GREY, ORANGE, PURPLE, SKY, VEIL

if TYPE_CHECKING:
    from pandas import DataFrame

FAINT = (ORANGE, SKY, PURPLE)
"""Colours of lines in which words are too faint to read."""
WIDTHS_PX = {280.0: 1, 560.0: 3, 1000.0: 6}
"""The widths of a plot for which words are placed, on a phone, in a notebook and on a page, with
their weights: where all cannot be served, the wide ones are."""
LETTERS = 18
"""How long a line of words beside an upright line may be."""
POINT, LINE = 10.0, 1.0
"""What it costs to hide a point, and a place of a line."""
LETTER_PX, TEXT_LINE_PX, MARGIN_PX = 7.0, 17.0, 24.0
MOST_PLACES = 200
"""Of a trace: so many are looked at."""
HEIGHTS = tuple(step / 25 for step in range(1, 24))
"""Where words can stand, as shares of the height of the plot."""
Point = tuple[float, float, float]
"""A place in a plot, as shares of its width and height, and what it costs to hide it."""
Box = tuple[float, float, float, float, float]
"""Of words: the width of the plot in pixels, then from and to on both axes, as shares."""


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
        ends = {f"{this}0": value, f"{this}1": end, f"{this}ref": this}
        if self.until is None:
            line = {"color": self.colour, "dash": self.dash, "width": self.width}
            return {"type": "line", **ends, **across, "line": line}
        filled = {"fillcolor": self.colour, "opacity": 0.18, "layer": "below"}
        return {"type": "rect", **ends, **across, **filled, "line": {"width": 0}}


@dataclass
class Space:
    """The space of a plot of a height in pixels: its points, and the words that stand in it."""

    x: Axis
    x_ends: tuple[float, float]
    y: Axis
    y_ends: tuple[float, float]
    """The ends of the axis as plotly has them: logarithms on a logarithmic one."""
    height_px: float
    points: list[Point] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)

    def across(self, value: float) -> float:
        """A value of the x axis as a share of the plot's width."""
        low, high, at = map(self.x.scaled, (*self.x_ends, value))
        return (at - low) / ((high - low) or 1)

    def add(self, xs: Iterable[Any], ys: Iterable[Any], cost: float = POINT) -> None:
        """Points that words should leave free."""
        places = [*zip(xs, ys, strict=True)]
        self.points += [
            (self.across(x), self.up(y), cost)
            for x, y in places[:: 1 + len(places) // MOST_PLACES]
            if x is not None and y is not None and y == y and (y > 0 or not self.y.log)
        ]

    def up(self, value: float) -> float:
        """A value of the y axis as a share of the plot's height."""
        low, high = self.y_ends
        return (self.y.scaled(value) - low) / ((high - low) or 1)

    def is_free(self, value: float, levels: Iterable[float]) -> bool:
        """Whether a line of text has room between a value and these levels above it."""
        apart = TEXT_LINE_PX / self.height_px
        return all(self.up(level) - self.up(value) > apart for level in levels)

    def _box(
        self, width_px: float, at: float, side: str, bottom: float, lines: Sequence[str]
    ) -> Box:
        wide = (6 + LETTER_PX * max(map(len, lines))) / width_px
        tall = TEXT_LINE_PX * len(lines) / self.height_px
        begin = at - wide if side == "right" else at
        return width_px, begin, begin + wide, bottom, bottom + tall

    def _cost(self, box: Box) -> float:
        """How many points and other words a text would hide; much if it leaves the figure."""
        width_px, left, right, bottom, top = box
        outside = left < 0 or right > 1 + MARGIN_PX / width_px or top > 1
        hidden = sum(
            cost for x, y, cost in self.points if left <= x <= right and bottom <= y <= top
        )
        crossed = sum(
            width == width_px and begin < right and left < end and low < top and bottom < high
            for width, begin, end, low, high in self.boxes
        )
        return WIDTHS_PX[width_px] * (1000 * outside + 100 * crossed + hidden)

    def place(self, at: float, words: str) -> tuple[str, float]:
        """The side of an upright line (the text's `xanchor`) and the height at which its words hide
        the fewest points."""
        lines, share = words.split("<br>"), self.across(at)

        def boxes(side: str, bottom: float) -> list[Box]:
            return [self._box(width, share, side, bottom, lines) for width in WIDTHS_PX]

        choices = product(("right", "left"), HEIGHTS)
        chosen = min(choices, key=lambda choice: sum(map(self._cost, boxes(*choice))))
        self.boxes += boxes(*chosen)
        return chosen


def draw_marks(plot: Plot, marks: Sequence[Mark], rows: DataFrame, space: Space) -> None:
    """Add the lines of the marks to a plot, and their words where they hide the fewest points."""
    drawn = with_values(marks, rows)
    for place, (mark, value) in enumerate(drawn):
        plot.shapes.append(mark.shape(value))
        words = mark.words(rows, value)
        if words and mark.axis == "x":
            plot.annotations.append(_beside(mark, value, words, space))
        elif words:
            higher = (
                level
                for number, (other, level) in enumerate(drawn)
                if other.axis == "y" and (level, number) > (value, place)
            )
            anchor = "bottom" if space.is_free(value, higher) else "top"
            plot.annotations.append(_along(mark, space.y.scaled(value), words, anchor))


def with_values(marks: Sequence[Mark], rows: DataFrame) -> list[tuple[Mark, float]]:
    """The marks that have a value, each with it."""
    drawn = [(mark, value) for mark in marks if (value := mark.value(rows)) is not None]
    return [(mark, value) for mark, value in drawn if value == value]


def _beside(mark: Mark, value: float, words: str, space: Space) -> dict[str, Any]:
    if "<br>" not in words:
        words = "<br>".join(wrap(words, LETTERS, break_long_words=False))
    side, height = space.place(value, words)
    shift = {"xshift": -6 if side == "right" else 6, "xanchor": side, "align": side}
    place: dict[str, Any] = {"yref": "y domain", "yanchor": "bottom", **shift}
    return text_at(space.x.scaled(value), height, words, mark.ink, size=13, bgcolor=VEIL, **place)


def _along(mark: Mark, at: float, words: str, anchor: str) -> dict[str, Any]:
    """Words at the left end of a line, above or below it."""
    place: dict[str, Any] = {"xref": "x domain", "xanchor": "left", "yanchor": anchor}
    return text_at(0.005, at, words, mark.ink, size=13, bgcolor=VEIL, **place)


def across_all(plot: Plot, marks: Sequence[Mark], rows: DataFrame) -> None:
    """Add upright lines over the rows of a plot, with their words at the top."""
    for mark, value in with_values(marks, rows):
        plot.shapes.append(mark.shape(value))
        if words := mark.words(rows, value):
            x = log10(value) if plot.x.get("type") == "log" else value
            place: dict[str, Any] = {"yref": "y domain", "xanchor": "right", "yanchor": "bottom"}
            plot.annotations.append(text_at(x, 1, words, mark.ink, **place))
