"""A middle with an interval for each condition: ratios, medians of repetitions, predicted ranges.

Names are written above their marks, so that a narrow page has room for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pandas import DataFrame

from labs.read.display.format import in_three_digits, is_known
from labs.read.figures.axes import Axis
from labs.read.figures.lines import LOOKS
from labs.read.figures.marks import with_values
from labs.read.figures.named_rows import NamedRows, Record, write_above
from labs.read.figures.plot import Look, Plot, Trace, apart, hover, points, text_at
from labs.read.figures.style import BLACK

if TYPE_CHECKING:
    from collections.abc import Iterable

NAME_PX, GAP = 22, 0.6
"""The height of a name, and of the gap below its marks, as a share of a mark's."""
PREDICTED_PX = 11
"""How far a predicted interval is below the measured one."""
FAINT = 0.35
ROOM = 0.06
"""The space at both ends of the axis, as a share of its length."""
LOW, HIGH = "low", "high"
"""The columns with the ends of an interval."""
MIDDLE_PX = "_middle_px"


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
    """A mark at `x` with its interval, from `low` to `high`, for each row of the table.

    Rows with the same value of `row` stand below one name, which `row_name` makes from their
    records. `by` is the column of the looks and of the names in the legend; a `hollow` mark has no
    filling. `draws` is the column of all values behind a middle, as a list. `expected` is drawn
    below, `reference` across them. `words` are written beside a mark, `says` is its hover text.
    """

    by: str
    x: Axis | str
    row_name: Callable[[list[dict[Any, Any]]], str]
    says: Callable[[Record], str]
    looks: Mapping[Any, Look] = field(default_factory=dict)
    hollow: Callable[[Record], bool] = lambda row: False
    draws: str = ""
    expected: Expected | None = None
    reference: Reference | None = None
    words: Callable[[Record], str] | None = None
    mark_px: float = 14

    @cached_property
    def across(self) -> Axis:
        """The x axis."""
        return self.axis(self.x)

    def panel(self, rows: DataFrame, sources: tuple[Any, ...]) -> Plot:
        """The pair of axes with all marks."""
        plot, names, placed = Plot(), {}, []
        for _, records in self.groups(rows):
            names[plot.height] = self.row_name(records)
            write_above(plot, names[plot.height])
            plot.height += NAME_PX
            for record in records:
                if is_known(record[self.across.column]):
                    placed.append({**record, MIDDLE_PX: plot.height + self.mark_px / 2})
                    plot.height += self.mark_px + (PREDICTED_PX if self.expected else 0)
            plot.height += GAP * self.mark_px
        drawn = DataFrame(placed, columns=[*rows, MIDDLE_PX])
        values = [*self._values(rows, drawn)]
        ends = self.across.ends(values, ROOM)
        plot.x = {**self.across.layout(values), "range": [*ends]}
        plot.traces = [*self._measured(drawn), *self._predicted(drawn)]
        if self.reference:
            self._refer(plot, drawn, self.reference, sum(ends) / 2)
        if self.words:
            records = drawn.to_dict("records")
            plot.annotations += [
                self._beside(row, self.words(row), sum(ends) / 2) for row in records
            ]
        return self.finish(plot, names, self.across, rows)

    def _values(self, rows: DataFrame, drawn: DataFrame) -> Iterator[float]:
        """All that is drawn along the axis."""
        for name in self._drawn:
            yield from drawn[name].dropna().astype(float)
        if self.draws:
            yield from drawn[self.draws].explode().astype(float)
        for mark, level in with_values(self.marks, rows):
            yield from (level, mark.until or level)

    @cached_property
    def _drawn(self) -> Sequence[str]:
        """The columns of what is drawn of each row."""
        names = [LOW, self.across.column, HIGH]
        if self.expected:
            names += [self.expected.low, self.expected.high]
        return [*names, self.reference.column] if self.reference else names

    def _measured(self, drawn: DataFrame) -> Iterator[Trace]:
        names = (LOW, self.across.column, HIGH)
        for place, (kind, some) in enumerate(drawn.groupby(self.by, sort=False)):
            look = self.looks.get(kind, LOOKS[place % len(LOOKS)])
            if self.draws:
                yield self._draws(some, look)
            trace = _marks(some, names, str(kind), look, map(self.says, some.to_dict("records")))
            hollow = map(self.hollow, some.to_dict("records"))
            trace["marker"]["symbol"] = [look.symbol + "-open" * empty for empty in hollow]
            trace["marker"]["line"]["width"] = 2
            yield trace

    def _draws(self, some: DataFrame, look: Look) -> Trace:
        """Every value behind the middles, as faint dots."""
        every = some[[self.draws, MIDDLE_PX]].explode(self.draws)
        faint = points(every[self.draws].astype(float), every[MIDDLE_PX], "", look)
        faint["marker"] = {"color": look.colour, "size": 6, "opacity": FAINT}
        return {**faint, "showlegend": False, "hoverinfo": "skip"}

    def _predicted(self, drawn: DataFrame) -> Iterator[Trace]:
        """The predicted middles and intervals, just below the measured ones."""
        if expected := self.expected:
            some = drawn[drawn[expected.middle].notna()]
            below = some.assign(**{MIDDLE_PX: some[MIDDLE_PX] + PREDICTED_PX})
            names = (expected.low, expected.middle, expected.high)
            words = map(in_three_digits, some[expected.middle])
            look = Look(BLACK, symbol="line-ns-open")
            if len(some):
                yield _marks(below, names, expected.name, look, words)

    def _beside(self, row: Record, words: str, centre: float) -> dict[str, Any]:
        """Words beside all that is drawn of a row, where there is more room."""
        places = [self.across.scaled(row[name]) for name in self._drawn if is_known(row[name])]
        low, high = min(places), max(places)
        if self.across.scaled(row[self.across.column]) > centre:
            return text_at(low, row[MIDDLE_PX], words, size=13, xshift=-10, xanchor="right")
        return text_at(high, row[MIDDLE_PX], words, size=13, xshift=10, xanchor="left")

    def _refer(self, plot: Plot, drawn: DataFrame, reference: Reference, centre: float) -> None:
        """Draw the value that the marks below a name share."""
        some = drawn[drawn[reference.column].notna()]
        groups = some.groupby(self.row, sort=False)
        levels = groups[reference.column].first()
        tops = groups[MIDDLE_PX].first() - self.mark_px / 2
        bottoms = groups[MIDDLE_PX].last() + self.mark_px / 2 + PREDICTED_PX
        for level, bottom in zip(levels, bottoms, strict=True):
            at = self.across.scaled(level)
            place = {"yanchor": "top", "xanchor": "right" if at > centre else "center"}
            words = f"{reference.words}{in_three_digits(level)}"
            plot.annotations.append(text_at(at, bottom, words, **place))
        if len(levels):
            template = f"%{{x:.3g}}<extra>{reference.name}</extra>"
            xs, ys, look = apart(levels, levels), apart(tops, bottoms), Look(BLACK, "dash")
            line = points(xs, ys, reference.name, look, "lines", hovertemplate=template)
            plot.traces.append(line)

    def text_of(self, rows: DataFrame) -> str:
        """Each row in words."""
        records = rows[rows[self.across.column].notna()].to_dict("records")
        phrases = (self.says(row) + self._reference_in_words(row) for row in records)
        return f"{self.across.title}. {'; '.join(phrases)}."

    def _reference_in_words(self, row: Record) -> str:
        if self.reference is None or not is_known(row[self.reference.column]):
            return ""
        return f" ({self.reference.words}{in_three_digits(row[self.reference.column])})"


def _marks(
    rows: DataFrame, names: Sequence[str], name: str, look: Look, words: Iterable[str]
) -> Trace:
    """Middles with their intervals (columns: low, middle, high), and what each says."""
    low, middle, high = (rows[name].astype(float) for name in names)
    ends = {"array": (high - middle).tolist(), "arrayminus": (middle - low).tolist()}
    bars = {"type": "data", "symmetric": False, **ends, "thickness": 2, "width": 6}
    return points(middle, rows[MIDDLE_PX], name, look, error_x=bars, **hover(words, name))
