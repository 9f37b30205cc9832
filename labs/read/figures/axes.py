"""An axis as a value: its column, its words and unit, its scale and its ticks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, log2, log10
from typing import Any

from labs.drive.result_columns import Column, columns_of
from labs.read.display.format import heading, in_digits, in_three_digits, size_in_words
from labs.read.figures.style import log_ticks, log_title

MOST_TICKS = 8
POINTS, SIZES, DIGITS = "points", "sizes", "digits"
"""Ticks at the drawn values; at powers of two, in bytes, written as sizes; at 1, 2 and 5 times
powers of ten."""
CLOSE_TICKS = 1.16
"""On a logarithmic axis: values whose ratio is smaller share a tick, the first one's."""
Columns = Mapping[str, Column]


def declared(results: type | None) -> Columns:
    """The columns of a lab's class `Results` by name; none without a class."""
    return {} if results is None else {column.name: column for column in columns_of(results)}


@dataclass(frozen=True)
class Axis:
    """One axis of a figure.

    Its words and unit are those of the lab's `column`, if not given. `begins_at_0` and `range` set
    its ends, which are otherwise those of what is drawn; what is below `least` is drawn there.
    `ticks` is POINTS, SIZES, DIGITS, the values themselves, if need be with their words, or empty
    for plotly's choice. The values of a `category` are words, side by side; those of sizes have
    `unit_bytes` each; `written` writes a value with a unit that suits it.
    """

    column: str
    words: str = ""
    unit: str | None = None
    log: bool = False
    ticks: str | Sequence[float] | Mapping[float, str] = ""
    begins_at_0: bool = False
    least: float | None = None
    range: tuple[float, float] | None = None
    category: bool = False
    unit_bytes: int = 1
    written: Callable[[float], str] | None = None

    @property
    def is_size(self) -> bool:
        """Whether its values are sizes, which are written with their own units."""
        return self.ticks == SIZES or self.unit_bytes > 1

    def of(self, columns: Columns) -> Axis:
        """The axis with the words and the unit of its column, where it has none of its own."""
        return replace(self, words=self._words(columns), unit=self._unit(columns))

    def _words(self, columns: Columns) -> str:
        if self.words:
            return self.words
        if self.column in columns:
            return re.split("[,;:]", columns[self.column].meaning)[0]
        words = heading(self.column).partition(" (")[0]
        return words[:1].lower() + words[1:] if words[1:].islower() else words

    def _unit(self, columns: Columns) -> str:
        if self.unit is not None or self.is_size or self.written:
            return self.unit or ""
        if self.column in columns:
            return columns[self.column].unit
        return heading(self.column).partition(" (")[2].removesuffix(")")

    @property
    def title(self) -> str:
        """Words and unit, and whether the axis is logarithmic."""
        words = self.words + (f" ({self.unit})" if self.unit else "")
        return log_title(words) if self.log else words

    def value_in_words(self, value: Any) -> str:
        """A value with its unit: `23.8 MiB`, `0.5 BDP`, `113 MiB/s`."""
        if self.category:
            return str(value).replace("<br>", " ")
        if self.written:
            return self.written(value)
        if self.is_size:
            return size_in_words(value * self.unit_bytes)
        if self.is_counted:
            return f"{value:,.0f} {self.unit}"
        return f"{in_three_digits(value)} {self.unit}".strip()

    @property
    def is_counted(self) -> bool:
        """Whether its values are counted, and written with all their digits: those in bytes."""
        return self.unit == "bytes"

    def place_in_words(self, value: Any) -> str:
        """A place on the axis, without more digits than it needs: `0.5 BDP`, `7.5 s`."""
        if self.category or self.is_size or self.written:
            return self.value_in_words(value)
        short = float(f"{value:.3g}") if abs(value) < 100 else value
        return f"{in_digits(short)} {self.unit}".strip()

    def scaled(self, value: float) -> float:
        """Where a value is on the axis, in plotly's words: its logarithm on a logarithmic one."""
        return log10(value) if self.log else value

    def layout(self, values: Sequence[float] = ()) -> dict[str, Any]:
        """The axis as plotly has it, for these drawn values."""
        axis: dict[str, Any] = {"title": {"text": self.title}}
        if self.category:
            return axis | {"type": "category", "showgrid": False}
        if self.log:
            axis["type"] = "log"
        if self.is_counted:
            axis["tickformat"] = ","
        if self.range is not None:
            axis["range"] = [self.scaled(end) for end in self.range]
        elif self.begins_at_0:
            axis["rangemode"] = "tozero"
        return axis | (self._ticks(sorted({*values})) if self.ticks and values else {})

    def _ticks(self, values: Sequence[float]) -> dict[str, Any]:
        if isinstance(self.ticks, Mapping):
            return {"tickvals": [*self.ticks], "ticktext": [*self.ticks.values()]}
        if self.ticks == SIZES:
            sizes = powers_of_two(values[0] * self.unit_bytes, values[-1] * self.unit_bytes)
            ticks: Sequence[float] = [size / self.unit_bytes for size in sizes]
        elif self.ticks == DIGITS:
            ticks = log_ticks(10.0 ** floor(log10(values[0])), 10.0 ** ceil(log10(values[-1])))
        else:
            ticks = _apart(values) if self.ticks == POINTS else [*map(float, self.ticks)]
        words = (
            (size_in_words(tick * self.unit_bytes) for tick in ticks)
            if self.is_size
            else map(self.written or _tick, ticks)
        )
        return {"tickvals": ticks, "ticktext": list(words)}


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
    return in_digits(float(f"{value:.2g}")) if abs(value) < 100 else in_digits(value)
