"""A middle with an interval for each condition: ratios, medians of repetitions, predicted ranges.

Names are written above their marks, so that a narrow page has room for both. One unit of the y axis
is one pixel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import log10
from typing import TYPE_CHECKING, Any

from labs.read.display.format import in_three_digits, is_known
from labs.read.figures.axes import Axis, Columns, as_axis
from labs.read.figures.bars import FRAME_PX, LEFT_PX, write_above
from labs.read.figures.declaration import Declared
from labs.read.figures.lines import LOOKS
from labs.read.figures.marks import Mark, across_all
from labs.read.figures.plot import (
    Look,
    Plot,
    Trace,
    apart,
    assembled,
    error_bars,
    hover,
    points,
    text_at,
)
from labs.read.figures.style import BLACK, LEGEND_ABOVE, plain

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

NAME_PX, GAP_PX = 22, 10
PREDICTED_PX = 11
"""How far a predicted interval is below the measured one."""
FAINT = 0.35
ROOM = 0.06
"""The space at both ends of the axis, as a share of its length."""
TOP = "_top_px"
Record = Mapping[Any, Any]


@dataclass(frozen=True)
class Expected:
    """The predicted middle and interval of a row, by their columns, and its name in the legend."""

    middle: str
    low: str
    high: str
    name: str = "predicted"


@dataclass(frozen=True)
class Reference:
    """A value for all marks below one name: a dashed line across those that have it in a column,
    with the words before its digits, and its name in the legend."""

    column: str
    words: str
    name: str


@dataclass(frozen=True, kw_only=True)
class Intervals(Declared):
    """A mark at `x` with its interval for each row of the table.

    Rows with the same value of `row` stand below one name, which `row_name` makes from their
    records. `by` is the column of the looks and of the names in the legend; a `hollow` mark has no
    filling. `spread` are the columns of both ends; `draws` that of all values behind a middle, as a
    list. `expected` is drawn below, `reference` across them. `words` are written beside a mark,
    `says` is its hover text.
    """

    x: Axis | str
    spread: tuple[str, str]
    row: str = "condition"
    row_name: Callable[[list[dict[Any, Any]]], str] | None = None
    by: str | None = None
    named: str = "{}"
    looks: Mapping[Any, Look] = field(default_factory=dict)
    hollow: Callable[[Record], bool] = lambda row: False
    draws: str = ""
    expected: Expected | None = None
    reference: Reference | None = None
    marks: tuple[Mark, ...] = ()
    words: Callable[[Record], str] | None = None
    says: Callable[[Record], str] | None = None
    mark_px: float = 14
    gap_px: float = GAP_PX

    def draw(self, rows: DataFrame, columns: Columns, sources: tuple[Any, ...]) -> Figure:
        """The figure of rows, of which there is at least one."""
        plot, height = self.panel(rows, columns, sources)
        traces, layout = assembled([plot])
        layout |= {"legend": LEGEND_ABOVE, "showlegend": True}
        tops, names = plot.y["tickvals"], plot.y["ticktext"]
        steps = {"y": [*zip([*(top - 1 for top in tops[1:]), height], names, strict=True)]}
        figure = self._finished(rows, columns, (traces, layout), FRAME_PX + round(height), steps)
        return figure.update_layout(margin_l=LEFT_PX)

    def panel(
        self, rows: DataFrame, columns: Columns, sources: tuple[Any, ...]
    ) -> tuple[Plot, float]:
        """The pair of axes with all marks, and its height in pixels."""
        plot = Plot([], {}, {})
        records, top, places = [], 0.0, {}
        for value, some in rows.groupby(self.row, sort=False):
            of_row: list[dict[Any, Any]] = some.to_dict("records")
            name = self.row_name(of_row) if self.row_name else f"<b>{value}</b>"
            write_above(plot, top, name)
            places[top] = plain(name)
            top += NAME_PX
            for record in of_row:
                if is_known(record[as_axis(self.x).column]):
                    records.append({**record, TOP: top})
                    top += self.mark_px + (PREDICTED_PX if self.expected else 0)
            top += self.gap_px
        plot.traces = [*self._measured(records, columns), *self._predicted(records, columns)]
        plot.x = self._axis(records, columns)
        if self.reference:
            self._refer(plot, records, self.reference)
        plot.y = {"visible": False, "range": [top, -4], "showgrid": False}
        if self.words:
            plot.annotations += [self._beside(row, plot.x, self.words(row)) for row in records]
        plot.y |= {"tickvals": list(places), "ticktext": list(places.values())}
        across_all(plot, self.marks, rows)
        return plot, top

    def _axis(self, records: list[dict[Any, Any]], columns: Columns) -> dict[str, Any]:
        """The axis with all marks, intervals and bands."""
        axis, ends = as_axis(self.x), [*self.spread, as_axis(self.x).column]
        ends += [self.expected.low, self.expected.high] if self.expected else []
        ends += [self.reference.column] if self.reference else []
        values = [float(row[name]) for row in records for name in ends if is_known(row[name])]
        values += [float(n) for row in records for n in (row[self.draws] if self.draws else ())]
        for mark in self.marks:
            levels = (mark.at, mark.until)
            values += [float(n) for n in levels if isinstance(n, int | float)]
        layout = axis.layout(values, columns)
        if axis.range is None and values:
            low, high = (log10(end) if axis.log else end for end in (min(values), max(values)))
            room = ROOM * ((high - low) or 1)
            layout["range"] = [low - room, high + room]
        return layout

    def _measured(self, records: list[dict[Any, Any]], columns: Columns) -> Iterator[Trace]:
        axis = as_axis(self.x)
        kinds = dict.fromkeys(row[self.by] for row in records) if self.by else {"measured": None}
        for place, kind in enumerate(kinds):
            look, name = self.looks.get(kind, LOOKS[place % len(LOOKS)]), self.named.format(kind)
            some = [row for row in records if not self.by or row[self.by] == kind]
            if self.draws:
                yield self._draws(some, look)
            words = hover((self._says(row, columns) for row in some), name)
            trace = self._marks(some, axis.column, self.spread, (name, look), 0.0)
            trace["marker"] |= {
                "symbol": [look.symbol + "-open" * self.hollow(row) for row in some],
                "line": {"width": 2, "color": look.colour},
            }
            yield {**trace, **words}

    def _says(self, row: Record, columns: Columns) -> str:
        if self.says:
            return self.says(row)
        middle, *ends = (
            in_three_digits(row[name]) for name in (as_axis(self.x).column, *self.spread)
        )
        unit = as_axis(self.x).unit_of(columns)
        return f"{row[self.row]}: {middle} {unit}".strip() + f" ({' to '.join(ends)})"

    def _marks(
        self,
        records: list[dict[Any, Any]],
        column: str,
        ends: tuple[str, str],
        look: tuple[str, Look],
        below_px: float,
    ) -> Trace:
        """Middles with their intervals, so far below their places."""
        middles, low, high = ([float(row[name]) for row in records] for name in (column, *ends))
        ys = (row[TOP] + self.mark_px / 2 + below_px for row in records)
        bars = error_bars(low, middles, high)
        more = {"showlegend": True, "error_x": {**bars, "thickness": 2, "width": 6}}
        return {**points(middles, ys, *look), **more}

    def _beside(self, row: Record, axis: Mapping[str, Any], words: str) -> dict[str, Any]:
        """Words at the end of an interval that has more room."""
        is_log = axis.get("type") == "log"
        middle, begin, end = (
            log10(row[name]) if is_log else float(row[name])
            for name in (as_axis(self.x).column, *self.spread)
        )
        at_left = middle > sum(axis["range"]) / 2
        place: dict[str, Any] = {"xanchor": "right" if at_left else "left"}
        shift, y = -10 if at_left else 10, row[TOP] + self.mark_px / 2
        return text_at(begin if at_left else end, y, words, size=13, xshift=shift, **place)

    def _draws(self, records: list[dict[Any, Any]], look: Look) -> Trace:
        """Every value behind the middles, as faint dots."""
        places = [(row[TOP] + self.mark_px / 2, n) for row in records for n in row[self.draws]]
        faint = points((float(n) for _, n in places), (y for y, _ in places), "", Look(look.colour))
        faint["marker"] = {"color": look.colour, "size": 6, "opacity": FAINT}
        return {**faint, "showlegend": False, "hoverinfo": "skip"}

    def _predicted(self, records: list[dict[Any, Any]], columns: Columns) -> Iterator[Trace]:
        """The predicted middles and intervals, just below the measured ones."""
        if self.expected is None:
            return
        expected = self.expected
        if some := [row for row in records if is_known(row[expected.middle])]:
            look = expected.name, Look(BLACK, symbol="line-ns", size=9)
            ends = expected.low, expected.high
            trace = self._marks(some, expected.middle, ends, look, PREDICTED_PX)
            trace["marker"]["line"]["width"] = 2
            words = (in_three_digits(row[expected.middle]) for row in some)
            yield {**trace, **hover(words, expected.name)}

    def _refer(self, plot: Plot, records: list[dict[Any, Any]], reference: Reference) -> None:
        """Draw the value that the marks below a name share."""
        some = [row for row in records if is_known(row[reference.column])]
        middles, ends = [], []
        for value in dict.fromkeys(row[self.row] for row in some):
            rows = [row for row in some if row[self.row] == value]
            at, top = float(rows[0][reference.column]), rows[0][TOP]
            bottom = rows[-1][TOP] + self.mark_px + (PREDICTED_PX if self.expected else 0)
            place = as_axis(self.x).scaled(at)
            is_right = place > sum(plot.x["range"]) / 2
            middles.append(at)
            ends.append((top, bottom))
            words = f"{reference.words}{in_three_digits(at)}"
            anchors: dict[str, Any] = {"xanchor": "right" if is_right else "center"}
            plot.annotations.append(text_at(place, bottom, words, yanchor="top", **anchors))
        if some:
            look, template = Look(BLACK, "dash"), f"%{{x:.3g}}<extra>{reference.name}</extra>"
            xs, ys = apart(middles, middles), apart(*zip(*ends, strict=True))
            line = points(xs, ys, reference.name, look, "lines", hovertemplate=template)
            plot.traces.append(line)

    def text_of(self, rows: DataFrame, columns: Columns) -> str:
        """Each row in words."""
        records = rows[rows[as_axis(self.x).column].notna()].to_dict("records")
        phrases = (self._says(row, columns) + self._reference_in_words(row) for row in records)
        return f"{as_axis(self.x).title(columns)}. {'; '.join(phrases)}."

    def _reference_in_words(self, row: Record) -> str:
        if self.reference is None or not is_known(row[self.reference.column]):
            return ""
        return f" ({self.reference.words}{in_three_digits(row[self.reference.column])})"

    def table_of(self, rows: DataFrame, columns: Columns) -> DataFrame:
        """The rows with the columns that are drawn."""
        names = [self.row, *([self.by] if self.by else []), as_axis(self.x).column, *self.spread]
        if self.expected:
            names += [self.expected.middle, self.expected.low, self.expected.high]
        return rows[list(dict.fromkeys(names))]
