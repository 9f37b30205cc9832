"""A middle with an interval for each condition: ratios, medians of repetitions, predicted ranges.

Names are written above their marks, so that a narrow page has room for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from labs.read.display.format import in_three_digits, is_known
from labs.read.figures.axes import Axis
from labs.read.figures.lines import LOOKS
from labs.read.figures.named_rows import NamedRows, Record, write_above
from labs.read.figures.plot import Look, Plot, Trace, apart, error_bars, hover, points, text_at
from labs.read.figures.style import BLACK

if TYPE_CHECKING:
    from pandas import DataFrame

NAME_PX, GAP_PX = 22, 10
PREDICTED_PX = 11
"""How far a predicted interval is below the measured one."""
FAINT = 0.35
ROOM = 0.06
"""The space at both ends of the axis, as a share of its length."""
TOP = "_top_px"
Records = Sequence[dict[Any, Any]]


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
class Intervals(NamedRows):
    """A mark at `x` with its interval for each row of the table.

    Rows with the same value of `row` stand below one name, which `row_name` makes from their
    records. `by` is the column of the looks and of the names in the legend; a `hollow` mark has no
    filling. `spread` are the columns of both ends; `draws` that of all values behind a middle, as a
    list. `expected` is drawn below, `reference` across them. `words` are written beside a mark,
    `says` is its hover text.
    """

    x: Axis | str
    spread: tuple[str, str]
    row_name: Callable[[list[dict[Any, Any]]], str] | None = None
    named: str = "{}"
    looks: Mapping[Any, Look] = field(default_factory=dict)
    hollow: Callable[[Record], bool] = lambda row: False
    draws: str = ""
    expected: Expected | None = None
    reference: Reference | None = None
    words: Callable[[Record], str] | None = None
    says: Callable[[Record], str] | None = None
    mark_px: float = 14
    gap_px: float = GAP_PX

    @cached_property
    def across(self) -> Axis:
        """The x axis."""
        return self.axis(self.x)

    def panel(self, rows: DataFrame, sources: tuple[Any, ...]) -> tuple[Plot, float]:
        """The pair of axes with all marks, and its height in pixels."""
        plot = Plot([], {}, {})
        records, top, names = [], 0.0, {}
        for value, some in rows.groupby(self.row, sort=False):
            of_row: list[dict[Any, Any]] = some.to_dict("records")
            names[top] = self.row_name(of_row) if self.row_name else f"<b>{value}</b>"
            write_above(plot, top, names[top])
            top += NAME_PX
            for record in of_row:
                if is_known(record[self.across.column]):
                    records.append({**record, TOP: top})
                    top += self._mark_px
            top += self.gap_px
        plot.traces = [*self._measured(records), *self._predicted(records)]
        plot.x = self._x(records)
        if self.reference:
            self._refer(plot, records, self.reference)
        if self.words:
            plot.annotations += [self._beside(row, plot.x, self.words(row)) for row in records]
        return self.finish(plot, names, top, rows)

    @property
    def _mark_px(self) -> float:
        """The height of a mark, with what is predicted."""
        return self.mark_px + (PREDICTED_PX if self.expected else 0)

    def _x(self, records: Records) -> dict[str, Any]:
        """The axis with all marks, intervals and bands."""
        ends = [*self.spread, self.across.column]
        ends += [self.expected.low, self.expected.high] if self.expected else []
        ends += [self.reference.column] if self.reference else []
        levels = [level for mark in self.marks for level in (mark.at, mark.until)]
        values = [
            *(float(row[name]) for row in records for name in ends if is_known(row[name])),
            *(float(n) for row in records for n in (row[self.draws] if self.draws else ())),
            *(float(level) for level in levels if isinstance(level, int | float)),
        ]
        layout = self.across.layout(values)
        if self.across.range is None and values:
            low, high = map(self.across.scaled, (min(values), max(values)))
            room = ROOM * ((high - low) or 1)
            layout["range"] = [low - room, high + room]
        return layout

    def _measured(self, records: Records) -> Iterator[Trace]:
        kinds = dict.fromkeys(row[self.by] for row in records) if self.by else {"measured": None}
        for place, kind in enumerate(kinds):
            look, name = self.looks.get(kind, LOOKS[place % len(LOOKS)]), self.named.format(kind)
            some = [row for row in records if not self.by or row[self.by] == kind]
            if self.draws:
                yield self._draws(some, look)
            trace = self._marks(some, (self.across.column, *self.spread), name, look)
            trace["marker"] |= {
                "symbol": [look.symbol + "-open" * self.hollow(row) for row in some],
                "line": {"width": 2, "color": look.colour},
            }
            yield {**trace, **hover(map(self._says, some), name)}

    def _says(self, row: Record) -> str:
        if self.says:
            return self.says(row)
        names = (self.across.column, *self.spread)
        middle, *ends = (in_three_digits(row[name]) for name in names)
        value = f"{row[self.row]}: {middle} {self.across.unit}".strip()
        return f"{value} ({' to '.join(ends)})"

    def _marks(
        self,
        records: Records,
        names: tuple[str, str, str],
        name: str,
        look: Look,
        below_px: float = 0.0,
    ) -> Trace:
        """Middles with their intervals (columns: middle, low, high), so far below their places."""
        middles, low, high = ([float(row[name]) for row in records] for name in names)
        ys = (row[TOP] + self.mark_px / 2 + below_px for row in records)
        bars = {**error_bars(low, middles, high), "thickness": 2, "width": 6}
        return {**points(middles, ys, name, look), "showlegend": True, "error_x": bars}

    def _beside(self, row: Record, axis: Mapping[str, Any], words: str) -> dict[str, Any]:
        """Words at the end of an interval that has more room."""
        names = (self.across.column, *self.spread)
        middle, begin, end = (self.across.scaled(float(row[name])) for name in names)
        y = row[TOP] + self.mark_px / 2
        if middle > sum(axis["range"]) / 2:
            return text_at(begin, y, words, size=13, xshift=-10, xanchor="right")
        return text_at(end, y, words, size=13, xshift=10, xanchor="left")

    def _draws(self, records: Records, look: Look) -> Trace:
        """Every value behind the middles, as faint dots."""
        places = [(row[TOP] + self.mark_px / 2, n) for row in records for n in row[self.draws]]
        faint = points((float(n) for _, n in places), (y for y, _ in places), "", Look(look.colour))
        faint["marker"] = {"color": look.colour, "size": 6, "opacity": FAINT}
        return {**faint, "showlegend": False, "hoverinfo": "skip"}

    def _predicted(self, records: Records) -> Iterator[Trace]:
        """The predicted middles and intervals, just below the measured ones."""
        if not (expected := self.expected):
            return
        if some := [row for row in records if is_known(row[expected.middle])]:
            names = (expected.middle, expected.low, expected.high)
            look = Look(BLACK, symbol="line-ns", size=9)
            trace = self._marks(some, names, expected.name, look, PREDICTED_PX)
            trace["marker"]["line"]["width"] = 2
            words = (in_three_digits(row[expected.middle]) for row in some)
            yield {**trace, **hover(words, expected.name)}

    def _refer(self, plot: Plot, records: Records, reference: Reference) -> None:
        """Draw the value that the marks below a name share."""
        some = [row for row in records if is_known(row[reference.column])]
        levels: list[tuple[float, float, float]] = []
        for value in dict.fromkeys(row[self.row] for row in some):
            rows = [row for row in some if row[self.row] == value]
            at, bottom = float(rows[0][reference.column]), rows[-1][TOP] + self._mark_px
            levels.append((at, rows[0][TOP], bottom))
            place = self.across.scaled(at)
            side = "right" if place > sum(plot.x["range"]) / 2 else "center"
            words = f"{reference.words}{in_three_digits(at)}"
            plot.annotations.append(text_at(place, bottom, words, yanchor="top", xanchor=side))
        if levels:
            middles, tops, bottoms = zip(*levels, strict=True)
            look, template = Look(BLACK, "dash"), f"%{{x:.3g}}<extra>{reference.name}</extra>"
            xs, ys = apart(middles, middles), apart(tops, bottoms)
            line = points(xs, ys, reference.name, look, "lines", hovertemplate=template)
            plot.traces.append(line)

    def text_of(self, rows: DataFrame) -> str:
        """Each row in words."""
        records = rows[rows[self.across.column].notna()].to_dict("records")
        phrases = (self._says(row) + self._reference_in_words(row) for row in records)
        return f"{self.across.title}. {'; '.join(phrases)}."

    def _reference_in_words(self, row: Record) -> str:
        if self.reference is None or not is_known(row[self.reference.column]):
            return ""
        return f" ({self.reference.words}{in_three_digits(row[self.reference.column])})"

    def table_of(self, rows: DataFrame) -> DataFrame:
        """The rows with the columns that are drawn."""
        names = [self.across.column, *self.spread]
        if self.expected:
            names += [self.expected.middle, self.expected.low, self.expected.high]
        return self.with_values(rows, names)
