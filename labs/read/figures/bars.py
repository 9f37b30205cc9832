"""Horizontal bars, condition by condition, each with its predicted and its published figure.

Figures are written above their bars, never next to them: a narrow page has no room there, and a
mark directly before a number would be read as its sign.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from labs.read.display.format import in_three_digits, is_known
from labs.read.figures.axes import Axis
from labs.read.figures.named_rows import NamedRows, Record, number, write_above
from labs.read.figures.plot import Look, Plot, Trace, apart, level_bars, points, published_points
from labs.read.figures.style import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION

if TYPE_CHECKING:
    from pandas import DataFrame

NAME_PX, WORDS_PX, BAR_PX, GAP_PX = 19, 16, 11, 9
ROOM = 1.04
"""How far the axis extends beyond the longest bar or mark."""
MARK_PX = 1
NOTE_LETTERS = 46
"""How long a line of a note may be, so that it fits a narrow page."""
PREDICTED = f"<span style='color:{VERMILION}'><b>|</b></span>\N{NO-BREAK SPACE}predicted"
ARTICLE = f"<span style='color:{ORANGE}'>●</span>\N{NO-BREAK SPACE}article"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, GREY)
"""As those of lines: a kernel has one colour in a figure with both."""


@dataclass(frozen=True)
class Bar:
    """One bar of each row: its column, what it means, and the column of the article's figures. Its
    predictions are in the column that the measured one declares, or in `predicted`."""

    column: str
    name: str
    colour: str = ""
    published: str = ""
    predicted: str = ""


@dataclass(frozen=True)
class _Placed:
    """A bar of a row at its place, the top of its words; what is not drawn has no length."""

    bar: Bar
    row: Record
    figure: float
    value: float | None
    predicted: float | None
    article: float | None
    top: float = 0.0

    @property
    def middle(self) -> float:
        return self.top + WORDS_PX + BAR_PX / 2

    @property
    def lengths(self) -> list[float]:
        """Everything that it draws on the axis."""
        return [n for n in (self.value, self.predicted, self.article) if n is not None]


_Row = tuple[str, Record, list[_Placed]]
"""A row's name, the first of its records, and its bars."""


@dataclass(frozen=True, kw_only=True)
class Bars(NamedRows):
    """A row for each value of the column `row`, with the `bars` of its rows.

    With `by`, each value of that column has a bar of its own, named by `named`. `row_name` makes
    the name of a row; `remark` follows it, and `instead` is a note in place of the bars (empty: it
    has bars). `is_drawn` says whether a value of a column can be drawn; `digits` writes values. The
    axis ends with the longest value of the rows for which `sets_end` holds, or of all if there are
    none; what is longer ends there with an arrow. `in_one_line`: the figures of all bars
    are beside the name, without the remark if they are several; a single bar needs no axis then.
    """

    bars: tuple[Bar, ...]
    words: str = ""
    unit: str | None = None
    row_name: Callable[[Any], str] = str
    named: Callable[[Any], str] = str
    remark: Callable[[Record], str] = lambda row: ""
    instead: Callable[[Record], str] = lambda row: ""
    is_drawn: Callable[[Record, float], bool] = lambda row, value: True
    sets_end: Callable[[Record], bool] = lambda row: True
    digits: Callable[[float], str] = in_three_digits
    in_one_line: bool = False

    @cached_property
    def across(self) -> Axis:
        """The axis of the values: that of the first bar."""
        return self.axis(Axis(self.bars[0].column, self.words, self.unit))

    def predicted_column(self, bar: Bar) -> str:
        """The column with the predictions of a bar; empty if there is none."""
        return bar.predicted or self.prediction_of(bar.column)

    def panel(self, rows: DataFrame, sources: tuple[Any, ...]) -> tuple[Plot, float]:
        """The pair of axes with all bars, and its height in pixels."""
        every = self._every_row(rows)
        end = self._end(rows, every)
        x = {"title": {"text": self.across.title}, "range": [0, end], "side": "bottom"}
        plot = Plot([], {**x, "visible": not self.in_one_line or len(self.bars) > 1}, {})
        placed: list[_Placed] = []
        names, top = {}, 0.0
        for name, record, bars in every:
            names[top] = name
            top = self._write(plot, name, record, bars, top)
            for bar in bars:
                if bar.lengths:
                    placed.append(replace(bar, top=top - WORDS_PX * self.in_one_line))
                    top = self._write_bar(plot, bar, top, end)
            if any(bar.lengths for bar in bars) and not self.in_one_line:
                top += GAP_PX
        plot.traces += [*self._measured(placed, end), *self._compared(placed, end)]
        return self.finish(plot, names, top + 4, rows)[0], top

    def _write(
        self, plot: Plot, name: str, record: Record, bars: list[_Placed], top: float
    ) -> float:
        """Write the name of a row and what follows it; where its bars begin."""
        note = wrap(self.instead(record), NOTE_LETTERS)
        beside = [self._figures(bar) for bar in bars if self.in_one_line or not bar.lengths]
        remark = "" if self.in_one_line and len(bars) > 1 else self.remark(record)
        words = "  ".join(filter(None, [f"<b>{name}</b>", remark, *beside]))
        write_above(plot, top, "<br>".join([words, *note]))
        return top + NAME_PX + WORDS_PX * len(note)

    def _write_bar(self, plot: Plot, bar: _Placed, top: float, end: float) -> float:
        """Write the figures of a bar above it; where it ends."""
        if self.in_one_line:
            return top + BAR_PX + 2
        cut = bar.value is not None and bar.value > end
        write_above(plot, top, self._figures(bar) + " →" * cut)
        return top + WORDS_PX + BAR_PX + 2

    def _every_row(self, rows: DataFrame) -> list[_Row]:
        kinds = [*dict.fromkeys(rows[self.by])] if self.by else []
        every: dict[str, _Row] = {}
        for row in rows.to_dict("records"):
            name = self.row_name(row[self.row])
            _, _, bars = every.setdefault(name, (name, row, []))
            for place, bar in enumerate(self.bars if not self.instead(row) else ()):
                place += kinds.index(row[self.by]) if self.by else 0
                called = self.named(row[self.by]) if self.by else bar.name
                bar = replace(bar, name=called, colour=bar.colour or COLOURS[place % len(COLOURS)])
                if is_known(row[bar.column]):
                    bars.append(self._bar(row, bar))
        return [*every.values()]

    def _bar(self, row: Record, bar: Bar) -> _Placed:
        figure, predicted = float(row[bar.column]), number(row, self.predicted_column(bar))
        value, predicted = (
            n if n is not None and self.is_drawn(row, n) else None for n in (figure, predicted)
        )
        return _Placed(bar, row, figure, value, predicted, number(row, bar.published))

    def _figures(self, bar: _Placed) -> str:
        """The measured value, and what is compared with it."""
        compared = {
            PREDICTED: number(bar.row, self.predicted_column(bar.bar)),
            ARTICLE: bar.article,
        }
        beside = (f" · {sign} {self._short(n)}" for sign, n in compared.items() if n is not None)
        return f"<b>{self.digits(bar.figure)}</b>{''.join(beside)}"

    def _short(self, value: float) -> str:
        """A figure beside the measured one, which has the unit if any has."""
        return self.digits(value).removesuffix(f" {self.across.unit}")

    def _end(self, rows: DataFrame, every: list[_Row]) -> float:
        """The end of the axis."""
        drawn = [(record, n) for _, record, bars in every for bar in bars for n in bar.lengths]
        longest = [n for record, n in drawn if self.sets_end(record)] or [n for _, n in drawn]
        levels = [mark.value(rows) for mark in self.marks]
        ends = [ROOM * max(longest, default=1.0) or 1.0]
        return max([*ends, *(1.02 * level for level in levels if level is not None)])

    def _measured(self, placed: list[_Placed], end: float) -> Iterator[Trace]:
        for kind in dict.fromkeys(bar.bar for bar in placed):
            bars = [bar for bar in placed if bar.bar == kind and bar.value is not None]
            values = [bar.figure for bar in bars]
            xs, ys = (min(value, end) for value in values), (bar.middle for bar in bars)
            template = f"%{{customdata:.4g}} {self.across.unit}<extra>{kind.name}</extra>"
            more = {"width": BAR_PX, "customdata": values, "hovertemplate": template}
            yield level_bars(xs, ys, kind.name, kind.colour, **more)

    def _compared(self, placed: list[_Placed], end: float) -> Iterator[Trace]:
        """The predictions as lines across their bars, the article's figures as dots."""
        unit, half = self.across.unit, BAR_PX / 2 + MARK_PX
        if predicted := [bar for bar in placed if bar.predicted is not None]:
            xs = [min(bar.predicted or 0.0, end) for bar in predicted]
            upper, lower = ([bar.middle + far for bar in predicted] for far in (-half, half))
            shown = {"hovertemplate": f"predicted %{{x:.4g}} {unit}<extra></extra>"}
            look = Look(VERMILION, width=3)
            yield points(apart(xs, xs), apart(upper, lower), "predicted", look, "lines", **shown)
        if published := [bar for bar in placed if bar.article is not None]:
            xs = [min(bar.article or 0.0, end) for bar in published]
            claims = (str(bar.row.get("article_claim", "")) for bar in published)
            values = (f"{bar.article:g} {unit}" for bar in published)
            words = map("{}: {}".format, claims, values)
            yield published_points(xs, [bar.middle for bar in published], words)

    def text_of(self, rows: DataFrame) -> str:
        """Each row in words: what its bars are, and what is compared with them."""
        phrases = []
        for name, record, bars in self._every_row(rows):
            values = [self._bar_in_words(bar, several=len(bars) > 1) for bar in bars]
            note = self.instead(record).partition(":")[0]
            phrases.append(
                f"{name}: {', '.join(filter(None, [*values, note, self.remark(record)]))}"
            )
        title = self.across.title
        return f"{title[:1].upper()}{title[1:]}. {'; '.join(phrases)}."

    def _bar_in_words(self, bar: _Placed, *, several: bool) -> str:
        value = number(bar.row, self.predicted_column(bar.bar))
        beside = f" (predicted {self._short(value)})" if value is not None else ""
        return f"{bar.bar.name} " * several + self.digits(bar.figure) + beside

    def table_of(self, rows: DataFrame) -> DataFrame:
        """The rows with the columns that are drawn."""
        bars = ((bar.column, self.predicted_column(bar), bar.published) for bar in self.bars)
        return self.with_values(rows, [name for names in bars for name in names])
