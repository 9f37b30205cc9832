"""Horizontal bars, condition by condition, each with its predicted and its published figure.

Figures are written above their bars, never next to them: a narrow page has no room there, and a
mark directly before a number would be read as its sign. One unit of the y axis is one pixel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from labs.read.display.format import in_three_digits, is_known
from labs.read.figures.axes import Axis, Columns
from labs.read.figures.declaration import Declared
from labs.read.figures.marks import Mark, across_all
from labs.read.figures.plot import (
    Look,
    Plot,
    Trace,
    apart,
    assembled,
    level_bars,
    points,
    published_points,
    text_at,
)
from labs.read.figures.style import BLUE, GREEN, GREY, LEGEND_ABOVE, ORANGE, PURPLE, SKY, VERMILION

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

NAME_PX, WORDS_PX, BAR_PX, GAP_PX = 19, 16, 11, 9
FRAME_PX = 190
"""The height of a figure around its rows: title, legend, axis and caption."""
ROOM = 1.04
"""How far the axis extends beyond the longest bar or mark."""
MARK_PX, LEFT_PX = 1, 20
NOTE_LETTERS = 46
"""How long a line of a note may be, so that it fits a narrow page."""
PREDICTED = f"<span style='color:{VERMILION}'><b>|</b></span>\N{NO-BREAK SPACE}predicted"
ARTICLE = f"<span style='color:{ORANGE}'>●</span>\N{NO-BREAK SPACE}article"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, GREY)
"""As those of lines: a kernel has one colour in a figure with both."""
Record = Mapping[Any, Any]


@dataclass(frozen=True)
class Bar:
    """One bar of each row: its column, what it means, and the column of the article's figures. Its
    predictions are in the column that the measured one declares, or in `predicted`."""

    column: str
    name: str
    colour: str = ""
    published: str = ""
    predicted: str = ""

    def predicted_column(self, columns: Columns) -> str:
        """The column with the predictions; empty if there is none."""
        declared = columns.get(self.column)
        return self.predicted or (declared and declared.predicted_by) or ""


@dataclass(frozen=True)
class _Placed:
    """A bar at its place: the top of its words, its length, and what is compared with it."""

    bar: Bar
    words: str
    value: float | None
    predicted: float | None
    article: float | None
    claim: str
    row: Record
    figure: float
    """The value, also where it is not drawn."""
    top: float = 0.0

    @property
    def middle(self) -> float:
        return self.top + WORDS_PX + BAR_PX / 2

    @property
    def lengths(self) -> list[float]:
        """Everything that it draws on the axis."""
        return [n for n in (self.value, self.predicted, self.article) if n is not None]


@dataclass(frozen=True, kw_only=True)
class Bars(Declared):
    """A row for each value of the column `row`, with the `bars` of its rows.

    With `by`, each value of that column has a bar of its own, named by `named`. `row_name` makes
    the name of a row; `remark` follows it, and `instead` is a note in place of the bars (empty: it
    has bars). `is_drawn` says whether a value of a column can be drawn; `digits` writes values. The
    axis ends with the longest value of the rows for which `sets_end` holds, or of all if there are
    none; what is longer ends there with an arrow. `in_one_line`: a single bar has its words beside
    the name and needs no axis.
    """

    bars: tuple[Bar, ...]
    words: str = ""
    unit: str | None = None
    row: str = "condition"
    row_name: Callable[[Any], str] = str
    by: str | None = None
    named: Callable[[Any], str] = str
    remark: Callable[[Record], str] = lambda row: ""
    instead: Callable[[Record], str] = lambda row: ""
    is_drawn: Callable[[Record, float], bool] = lambda row, value: True
    sets_end: Callable[[Record], bool] = lambda row: True
    digits: Callable[[float], str] = in_three_digits
    marks: tuple[Mark, ...] = ()
    in_one_line: bool = False

    def axis(self) -> Axis:
        """The axis of the values: that of the first bar."""
        return Axis(self.bars[0].column, self.words, self.unit, begins_at_0=True)

    def draw(self, rows: DataFrame, columns: Columns, sources: tuple[Any, ...]) -> Figure:
        """The figure of rows, of which there is at least one."""
        plot, height = self.panel(rows, columns, sources)
        traces, layout = assembled([plot])
        layout |= {"barmode": "overlay", "showlegend": True, "legend": LEGEND_ABOVE}
        figure = self._finished(rows, columns, (traces, layout), FRAME_PX + round(height))
        return figure.update_layout(margin_l=LEFT_PX)

    def panel(
        self, rows: DataFrame, columns: Columns, sources: tuple[Any, ...]
    ) -> tuple[Plot, float]:
        """The pair of axes with all bars, and its height in pixels."""
        every = self._every_bar(rows, columns)
        end = self._end(rows, every)
        title = {"text": self.axis().title(columns)}
        plot = Plot([], {"title": title, "range": [0, end], "side": "bottom"}, {})
        plot.x |= {"visible": not self.in_one_line}
        placed: list[_Placed] = []
        names, top = {}, 0.0
        for name, (record, bars) in every.items():
            names[top + NAME_PX / 2] = name
            drawn, top = self._row(plot, name, record, bars, (top, end))
            placed += drawn
        plot.traces += [
            *self._measured(placed, end, columns),
            *self._compared(placed, end, columns),
        ]
        plot.y = {"tickvals": list(names), "ticktext": list(names.values()), "visible": False}
        plot.y["range"] = [top + 4, -4]
        across_all(plot, self.marks, rows)
        return plot, top

    def _every_bar(
        self, rows: DataFrame, columns: Columns
    ) -> dict[str, tuple[Record, list[_Placed]]]:
        """The bars of each row by its name, with the first of its records."""
        kinds = [*dict.fromkeys(rows[self.by])] if self.by else []
        every: dict[str, tuple[Record, list[_Placed]]] = {}
        for row in rows.to_dict("records"):
            _, bars = every.setdefault(self.row_name(row[self.row]), (row, []))
            for place, bar in enumerate(self.bars if not self.instead(row) else ()):
                place += kinds.index(row[self.by]) if self.by else 0
                name = self.named(row[self.by]) if self.by else bar.name
                bar = replace(bar, name=name, colour=bar.colour or COLOURS[place % len(COLOURS)])
                if is_known(row[bar.column]):
                    bars.append(self._bar(row, bar, columns))
        return every

    def _bar(self, row: Record, bar: Bar, columns: Columns) -> _Placed:
        value = float(row[bar.column])
        predicted, article = (
            _number(row, name) for name in (bar.predicted_column(columns), bar.published)
        )
        compared = ((PREDICTED, predicted), (ARTICLE, article))
        beside = "".join(
            f" · {sign} {self._compared_words(n, columns)}" for sign, n in compared if n is not None
        )
        return _Placed(
            bar,
            words=f"<b>{self.digits(value)}</b>{beside}",
            value=value if self.is_drawn(row, value) else None,
            predicted=predicted if predicted is None or self.is_drawn(row, predicted) else None,
            article=article,
            claim=str(row.get("article_claim", "")),
            row=row,
            figure=value,
        )

    def _compared_words(self, value: float, columns: Columns) -> str:
        """A figure beside the measured one, which has the unit if any has."""
        return self.digits(value).removesuffix(f" {self.axis().unit_of(columns)}")

    def _end(self, rows: DataFrame, every: Mapping[str, tuple[Record, list[_Placed]]]) -> float:
        """The end of the axis."""
        longest = [
            max(lengths)
            for record, bars in every.values()
            for lengths in [[n for bar in bars for n in bar.lengths]]
            if lengths and self.sets_end(record)
        ] or [n for _, bars in every.values() for bar in bars for n in bar.lengths]
        levels = [mark.value(rows) for mark in self.marks]
        ends = [ROOM * max(longest, default=1.0) or 1.0]
        return max([*ends, *(1.02 * level for level in levels if level is not None)])

    def _row(
        self, plot: Plot, name: str, record: Record, bars: list[_Placed], reach: tuple[float, float]
    ) -> tuple[list[_Placed], float]:
        """Write the name of a row and the words above its bars; the bars, and where they end."""
        top, end = reach
        note = wrap(self.instead(record), NOTE_LETTERS)
        beside = [bar.words for bar in bars if self.in_one_line or not bar.lengths]
        words = "  ".join(filter(None, [f"<b>{name}</b>", self.remark(record), *beside]))
        write_above(plot, top, "<br>".join([words, *note]))
        top += NAME_PX + WORDS_PX * len(note)
        placed = []
        for bar in bars:
            if bar.lengths:
                cut = bar.value is not None and bar.value > end
                if self.in_one_line:
                    top -= WORDS_PX
                else:
                    write_above(plot, top, bar.words + (" →" if cut else ""))
                placed.append(replace(bar, top=top))
                top += WORDS_PX + BAR_PX + 2
        return placed, top + (GAP_PX if placed and not self.in_one_line else 0)

    def _measured(self, placed: list[_Placed], end: float, columns: Columns) -> Iterator[Trace]:
        unit = self.axis().unit_of(columns)
        for kind in dict.fromkeys(bar.bar for bar in placed):
            bars = [bar for bar in placed if bar.bar == kind and bar.value is not None]
            values = [bar.figure for bar in bars]
            xs, ys = (min(value, end) for value in values), (bar.middle for bar in bars)
            template = f"%{{customdata:.4g}} {unit}<extra>{kind.name}</extra>"
            more = {"width": BAR_PX, "customdata": values, "hovertemplate": template}
            yield level_bars(xs, ys, kind.name, kind.colour, **more)

    def _compared(self, placed: list[_Placed], end: float, columns: Columns) -> Iterator[Trace]:
        """The predictions as lines across their bars, the article's figures as dots."""
        unit = self.axis().unit_of(columns)
        half = BAR_PX / 2 + MARK_PX
        if predicted := [bar for bar in placed if bar.predicted is not None]:
            xs = [min(bar.predicted or 0.0, end) for bar in predicted]
            upper, lower = ([bar.middle + far for bar in predicted] for far in (-half, half))
            shown = {"hovertemplate": f"predicted %{{x:.4g}} {unit}<extra></extra>"}
            look = Look(VERMILION, width=3)
            yield points(apart(xs, xs), apart(upper, lower), "predicted", look, "lines", **shown)
        if published := [bar for bar in placed if bar.article is not None]:
            xs = [min(bar.article or 0.0, end) for bar in published]
            words = (f"{bar.claim}: {bar.article:g} {unit}" for bar in published)
            yield published_points(xs, [bar.middle for bar in published], words)

    def text_of(self, rows: DataFrame, columns: Columns) -> str:
        """Each row in words: what its bars are, and what is compared with them."""
        phrases = []
        for name, (record, bars) in self._every_bar(rows, columns).items():
            values = [self._bar_in_words(bar, columns, several=len(bars) > 1) for bar in bars]
            note = self.instead(record).partition(":")[0]
            phrases.append(
                f"{name}: {', '.join(filter(None, [*values, note, self.remark(record)]))}"
            )
        title = self.axis().title(columns)
        return f"{title[:1].upper()}{title[1:]}. {'; '.join(phrases)}."

    def _bar_in_words(self, bar: _Placed, columns: Columns, *, several: bool) -> str:
        value = _number(bar.row, bar.bar.predicted_column(columns))
        beside = f" (predicted {self._compared_words(value, columns)})" if value is not None else ""
        return f"{bar.bar.name} " * several + self.digits(bar.figure) + beside

    def table_of(self, rows: DataFrame, columns: Columns) -> DataFrame:
        """The rows with the columns that are drawn."""
        names = [self.row, *([self.by] if self.by else [])]
        for bar in self.bars:
            names += [bar.column, bar.predicted_column(columns), bar.published]
        return rows[[name for name in dict.fromkeys(names) if name in rows]]


def _number(row: Record, column: str) -> float | None:
    value = row.get(column) if column else None
    return float(value) if is_known(value) and value is not None else None


def write_above(plot: Plot, top: float, words: str) -> None:
    """Add words at the left end of a plot whose y axis has pixels, below `top`."""
    place: dict[str, Any] = {"xref": "x domain", "xanchor": "left", "yanchor": "top"}
    plot.annotations.append(text_at(0, top, words, align="left", **place))
