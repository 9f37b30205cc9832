"""Horizontal bars, condition by condition, each with its predicted and its published figure.

Figures are written above their bars, never next to them: a narrow page has no room there, and a
mark directly before a number would be read as its sign.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from labs.read.display.format import in_three_digits, is_known
from labs.read.figures.axes import Axis
from labs.read.figures.marks import with_values
from labs.read.figures.named_rows import NamedRows, Record, write_above
from labs.read.figures.plot import Look, Plot, Trace, apart, level_bars, points, published_points
from labs.read.figures.style import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION

if TYPE_CHECKING:
    from pandas import DataFrame

NAME_PX, WORDS_PX, BAR_PX, GAP_PX = 19, 16, 11, 9
ROOM = 1.04
"""How far the axis extends beyond the longest bar or mark."""
NOTE_LETTERS = 46
"""How long a line of a note may be, so that it fits a narrow page."""
PREDICTED = f"<span style='color:{VERMILION}'><b>|</b></span>\N{NO-BREAK SPACE}predicted"
ARTICLE = f"<span style='color:{ORANGE}'>●</span>\N{NO-BREAK SPACE}article"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, GREY)
"""As those of lines: a kernel has one colour in a figure with both."""


@dataclass(frozen=True)
class Bar:
    """One bar of each row: its column, what it means, and the column of the article's figures. Its
    predictions are in the column that the measured one declares."""

    column: str
    name: str
    colour: str = BLUE
    published: str = ""


@dataclass(frozen=True)
class _Placed:
    """A bar of a row, the figure to write, what is drawn on the axis, and its place."""

    bar: Bar
    row: Record
    words: str
    in_words: str
    value: float | None
    predicted: float | None
    article: float | None
    middle: float = 0.0

    @property
    def lengths(self) -> list[float]:
        """Everything that it draws on the axis."""
        return [n for n in (self.value, self.predicted, self.article) if n is not None]


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
        return self.axis(Axis(self.bars[0].column, self.words))

    def panel(self, rows: DataFrame, sources: tuple[Any, ...]) -> Plot:
        """The pair of axes with all bars."""
        every = self._every_row(rows)
        end = self._end(rows, [bar for _, _, bars in every for bar in bars])
        is_visible = not self.in_one_line or len(self.bars) > 1
        title = {"text": self.across.title}
        plot = Plot(x={"title": title, "range": [0, end], "visible": is_visible})
        placed: list[_Placed] = []
        names = {}
        for name, record, bars in every:
            names[plot.height] = name
            self._write_name(plot, name, record, bars)
            drawn = [bar for bar in bars if bar.lengths]
            for bar in drawn:
                if not self.in_one_line:
                    write_above(plot, bar.words + " →" * ((bar.value or 0.0) > end))
                    plot.height += WORDS_PX
                placed.append(replace(bar, middle=plot.height + BAR_PX / 2))
                plot.height += BAR_PX + 2
            if drawn and not self.in_one_line:
                plot.height += GAP_PX
        plot.height += 4
        plot.traces += [*self._measured(placed, end), *self._compared(placed, end)]
        return self.finish(plot, names, self.across, rows)

    def _write_name(self, plot: Plot, name: str, record: Record, bars: Sequence[_Placed]) -> None:
        """Write the name of a row and what follows it."""
        note = wrap(self.instead(record), NOTE_LETTERS)
        beside = [bar.words for bar in bars if self.in_one_line or not bar.lengths]
        remark = "" if self.in_one_line and len(self.bars) > 1 else self.remark(record)
        words = "  ".join(filter(None, [f"<b>{name}</b>", remark, *beside]))
        write_above(plot, "<br>".join([words, *note]))
        plot.height += NAME_PX + WORDS_PX * len(note)

    def _every_row(self, rows: DataFrame) -> list[tuple[str, Record, list[_Placed]]]:
        """The name of each row, the first of its records, and its bars."""
        kinds = [*rows[self.by].unique()] if self.by else []
        every: list[tuple[str, Record, list[_Placed]]] = []
        for value, records in self.groups(rows):
            shown = [row for row in records if not self.instead(row)]
            bars = [self._bar(row, bar, kinds) for row in shown for bar in self.bars]
            known = [bar for bar in bars if bar is not None]
            every.append((self.row_name(value), records[0], known))
        return every

    def _bar(self, row: Record, bar: Bar, kinds: Sequence[Any]) -> _Placed | None:
        """A bar of a row; None if it has no value."""
        figure, article = _number(row, bar.column), _number(row, bar.published)
        predicted = _number(row, self.prediction_of(bar.column))
        if figure is None:
            return None
        if self.by:
            colour = COLOURS[kinds.index(row[self.by]) % len(COLOURS)]
            bar = replace(bar, name=self.named(row[self.by]), colour=colour)
        words, in_words = f"<b>{self.digits(figure)}</b>", self.digits(figure)
        if predicted is not None:
            words += f" · {PREDICTED} {self._short(predicted)}"
            in_words += f" (predicted {self._short(predicted)})"
        if article is not None:
            words += f" · {ARTICLE} {self._short(article)}"
        value = figure if self.is_drawn(row, figure) else None
        if predicted is not None and not self.is_drawn(row, predicted):
            predicted = None
        return _Placed(bar, row, words, in_words, value, predicted, article)

    def _short(self, value: float) -> str:
        """A figure beside the measured one, which has the unit if any has."""
        return self.digits(value).removesuffix(f" {self.across.unit}")

    def _end(self, rows: DataFrame, bars: Sequence[_Placed]) -> float:
        """The end of the axis."""
        setting = [bar for bar in bars if bar.lengths and self.sets_end(bar.row)] or bars
        lengths = [length for bar in setting for length in bar.lengths]
        lengths += [level for _, level in with_values(self.marks, rows)]
        return ROOM * max(lengths, default=0.0) or 1.0

    def _measured(self, placed: Sequence[_Placed], end: float) -> Iterator[Trace]:
        for kind in dict.fromkeys(bar.bar for bar in placed):
            bars = [(bar.value, bar.middle) for bar in placed if bar.bar == kind]
            drawn = [(value, middle) for value, middle in bars if value is not None]
            values = [value for value, _ in drawn]
            template = f"%{{customdata:.4g}} {self.across.unit}<extra>{kind.name}</extra>"
            yield level_bars(
                [min(value, end) for value in values],
                [middle for _, middle in drawn],
                kind.name,
                kind.colour,
                width=BAR_PX,
                offset=-BAR_PX / 2,
                customdata=values,
                hovertemplate=template,
            )

    def _compared(self, placed: Sequence[_Placed], end: float) -> Iterator[Trace]:
        """The predictions as lines across their bars, the article's figures as dots."""
        unit, half = self.across.unit, BAR_PX / 2 + 1
        if predicted := [bar for bar in placed if bar.predicted is not None]:
            xs = [min(bar.predicted or 0.0, end) for bar in predicted]
            upper, lower = ([bar.middle + far for bar in predicted] for far in (-half, half))
            shown = {"hovertemplate": f"predicted %{{x:.4g}} {unit}<extra></extra>"}
            look = Look(VERMILION, width=3)
            yield points(apart(xs, xs), apart(upper, lower), "predicted", look, "lines", **shown)
        if published := [bar for bar in placed if bar.article is not None]:
            xs = [min(bar.article or 0.0, end) for bar in published]
            words = (
                f"{bar.row.get('article_claim', '')}: {bar.article:g} {unit}" for bar in published
            )
            yield published_points(xs, [bar.middle for bar in published], words)

    def text_of(self, rows: DataFrame) -> str:
        """Each row in words: what its bars are, and what is compared with them."""
        phrases = []
        for name, record, bars in self._every_row(rows):
            values = [f"{bar.bar.name} " * (len(bars) > 1) + bar.in_words for bar in bars]
            note = self.instead(record).partition(":")[0]
            words = ", ".join(filter(None, [*values, note, self.remark(record)]))
            phrases.append(f"{name}: {words}")
        title = self.across.title
        return f"{title[:1].upper()}{title[1:]}. {'; '.join(phrases)}."

    def table_of(self, rows: DataFrame) -> DataFrame:
        """The rows with what names them and the columns that are drawn."""
        names = [self.row, self.by]
        for bar in self.bars:
            names += [bar.column, self.prediction_of(bar.column), bar.published]
        return rows[[name for name in dict.fromkeys(names) if name in rows]]


def _number(row: Record, column: str) -> float | None:
    """The value of a column, if there is one."""
    value = row.get(column) if column else None
    return float(value) if value is not None and is_known(value) else None
