"""An axis as a value: its column, its words and unit, its scale and its ticks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, log2, log10
from typing import Any

from labs.drive.result_columns import Column, columns_of
from labs.errors import BadInput
from labs.read.display.format import heading, in_digits, in_three_digits, size_in_words
from labs.read.figures.style import log_ticks, log_title

MOST_TICKS = 8
POINTS, SIZES, DIGITS = "points", "sizes", "digits"
"""Ticks at the drawn values; at powers of two, in bytes, written as sizes; at 1, 2 and 5 times
powers of ten."""
CLOSE_TICKS = 1.16
"""On a logarithmic axis: values whose ratio is smaller share a tick, the first one's."""
ROOM = 0.1
"""The space beyond what is drawn, as a share of the length of the axis."""
Columns = Mapping[str, Column]


def declared(results: type | None) -> Columns:
    """The columns of a lab's class `Results` by name; none without a class."""
    return {} if results is None else {column.name: column for column in columns_of(results)}


@dataclass(frozen=True)
class Axis:
    """One axis of a figure.

    Its words and unit are those of the lab's `column`, if not given; another unit is another
    column, because nothing converts values. `begins_at_0` and `range` set
    its ends, which are otherwise those of what is drawn; what is below `least` is drawn there.
    `ticks` is POINTS, SIZES, DIGITS, the values with their words, or empty for plotly's choice. The
    values of a `category` are words, side by side; `written` writes a value with a unit that suits
    it, as sizes are.
    """

    column: str
    words: str = ""
    unit: str | None = None
    log: bool = False
    ticks: str | Mapping[Any, str] = ""
    begins_at_0: bool = False
    least: float | None = None
    range: tuple[float, float] | None = None
    category: bool = False
    written: Callable[[Any], str] | None = None

    def of(self, columns: Columns) -> Axis:
        """The axis with the words and the unit of its column, where it has none of its own.
        BadInput for another unit than the column's."""
        words, _, unit = heading(self.column).partition(" (")
        if words[1:].islower():
            words = words[:1].lower() + words[1:]
        unit = unit.removesuffix(")")
        if self.column in columns:
            column = columns[self.column]
            words, unit = re.split("[,;:]", column.meaning)[0], column.unit
            if self.unit not in (None, unit):
                raise BadInput(
                    f"{self.column} is in {unit or 'no unit'}, and not in {self.unit or 'none'}: "
                    "nothing converts it. Leave out the unit of its axis, or declare another column"
                )
        written = self.written or (size_in_words if self.ticks == SIZES else None)
        unit = "" if written else unit
        return replace(
            self,
            words=self.words or words,
            unit=unit if self.unit is None else self.unit,
            written=written,
        )

    @property
    def title(self) -> str:
        """Words and unit, and whether the axis is logarithmic."""
        words = self.words + (f" ({self.unit})" if self.unit else "")
        return log_title(words) if self.log else words

    @property
    def is_counted(self) -> bool:
        """Whether its values are counted, and written with all their digits: those in bytes."""
        return self.unit == "bytes" and not self.category

    def value_in_words(self, value: Any) -> str:
        """A value with its unit: `23.8 MiB`, `0.5 BDP`, `113 MiB/s`."""
        if self.is_counted:
            return f"{value:,.0f} {self.unit}"
        return self._in_words(value, in_three_digits)

    def place_in_words(self, value: Any) -> str:
        """A place on the axis, without more digits than it needs: `0.5 BDP`, `7.5 s`."""
        return self._in_words(value, _shortened)

    def _in_words(self, value: Any, in_words: Callable[[float], str]) -> str:
        if self.category:
            return str(value).replace("<br>", " ")
        if self.written:
            return self.written(value)
        return f"{in_words(value)} {self.unit}".strip()

    def scaled(self, value: float) -> float:
        """Where a value is on the axis, in plotly's words: its logarithm on a logarithmic one."""
        return log10(value) if self.log else value

    def ends(self, values: Sequence[float], room: float = ROOM) -> tuple[float, float]:
        """Where the axis of these values ends, in plotly's words."""
        if self.range is not None:
            return self.scaled(self.range[0]), self.scaled(self.range[1])
        low, high = self.scaled(min(values, default=1.0)), self.scaled(max(values, default=10.0))
        if self.begins_at_0:
            return 0.0, (1 + room) * high or 1.0
        space = room * ((high - low) or 1)
        return low - space, high + space

    def layout(self, values: Sequence[float] = ()) -> dict[str, Any]:
        """The axis as plotly has it, for these drawn values."""
        axis: dict[str, Any] = {"title": {"text": self.title}}
        if self.category:
            axis |= {"type": "category", "showgrid": False}
            if isinstance(self.ticks, Mapping):
                axis["categoryarray"] = [*self.ticks]
        if self.log:
            axis["type"] = "log"
        if self.is_counted:
            axis["tickformat"] = ","
        if self.range is not None:
            axis["range"] = [*self.ends(values)]
        elif self.begins_at_0:
            axis["rangemode"] = "tozero"
        return axis | (self._ticks(sorted({*values})) if self.ticks and values else {})

    def _ticks(self, values: Sequence[float]) -> dict[str, Any]:
        if isinstance(self.ticks, Mapping):
            return {"tickvals": [*self.ticks], "ticktext": [*self.ticks.values()]}
        low, high = values[0], values[-1]
        ticks: Sequence[float] = values
        if self.ticks == SIZES:
            ticks = powers_of_two(low, high)
        elif self.ticks == DIGITS:
            ticks = log_ticks(10.0 ** floor(log10(low)), 10.0 ** ceil(log10(high)))
        else:
            ticks = _apart(values)
        return {"tickvals": [*ticks], "ticktext": [*map(self.written or _tick, ticks)]}


def powers_of_two(smallest: float, largest: float, most: int = MOST_TICKS) -> list[int]:
    """Powers of two over a range of sizes, every second or third one where there are many."""
    first, last = floor(log2(smallest)), ceil(log2(largest))
    step = 1 + (last - first) // most
    return [1 << power for power in range(first, last + 1, step)]


def _apart(values: Sequence[float]) -> list[float]:
    """The values, without those that are too close to the one before for words of their own."""
    ticks = [*values[:1]]
    for value in values[1:]:
        if not 0 < ticks[-1] < value < CLOSE_TICKS * ticks[-1]:
            ticks.append(value)
    return ticks


def _tick(value: float) -> str:
    return in_digits(float(f"{value:.2g}") if abs(value) < 100 else value)


def _shortened(value: float) -> str:
    return in_digits(float(f"{value:.3g}") if abs(value) < 100 else value)
