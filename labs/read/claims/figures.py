"""Figures of several runs or kernels: reduced to one, and compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from labs.read.claims.ledger import Figure
from labs.read.display.format import counted, figures_in_words, printable

Range = tuple[Figure | None, Figure | None]
"""From a lower to an upper figure."""
ALIKE_PCT = 5.0
"""How far figures are apart that are shown as one."""


def reduced(by: Callable[[list[float]], float], figures: Sequence[Figure | None]) -> Figure | None:
    """Several figures as one, name by name; None or a text only if all are equal."""
    first = figures[0]
    named: list[Mapping[str, Any]] = [one for one in figures if isinstance(one, Mapping)]
    if isinstance(first, Mapping) and len(named) == len(figures):
        common = [name for name in first if all(name in one for one in named)]
        every = {name: reduced(by, [one[name] for one in named]) for name in common}
        return {name: one for name, one in every.items() if isinstance(one, int | float | str)}
    numbers = [float(one) for one in figures if isinstance(one, int | float)]
    if len(numbers) == len(figures):
        return by(numbers)
    return first if all(one == first for one in figures) else None


def alike(
    one: Figure | None, other: Figure | None, expected: Figure | None = None, spare: float = 0.0
) -> bool:
    """Whether two figures are so close, compared with the largest of them and of the article's,
    that one stands for both; `spare` apart they always are, and nothing is like anything. Of
    several figures those with the same name are compared."""
    if one is None or other is None:
        return True
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        wanted = expected if isinstance(expected, Mapping) else {}
        common = one.keys() & other.keys()
        return all(alike(one[name], other[name], wanted.get(name), spare) for name in common)
    if isinstance(one, int | float) and isinstance(other, int | float):
        numbers = [each for each in (one, other, expected) if isinstance(each, int | float)]
        return abs(one - other) <= max(spare, ALIKE_PCT / 100 * max(map(abs, numbers)))
    return one == other


def overlap(one: Range, other: Range) -> bool:
    """Whether two ranges have a value in common; of several figures, each of them."""
    (low, high), (least, most) = one, other
    for a, b in ((low, most), (least, high)):
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            if any(_above(a[name], b[name]) for name in a.keys() & b.keys()):
                return False
        elif _above(a, b):
            return False
    return True


def _above(one: Figure | None, other: Figure | None) -> bool:
    """Whether a number is above another, or a text is another one."""
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one > other
    return one != other


def with_range(middle: Figure, ends: Range, count: int) -> str:
    """The median of draws with their range: `0.79 (0.74 to 0.81, 5 draws)`."""
    low, high = ends
    if isinstance(middle, Mapping) and isinstance(low, Mapping) and isinstance(high, Mapping):
        each = ", ".join(
            f"{printable(name)}: {with_range(one, (low[name], high[name]), 0)}"
            for name, one in middle.items()
        )
        return f"{each} ({counted(count, 'draw')})"
    told = [figures_in_words(one) for one in ends]
    span = [" to ".join(told)] if told[0] != told[1] else []
    said = ", ".join([*span, *([counted(count, "draw")] if count else [])])
    return f"{figures_in_words(middle)} ({said})" if said else figures_in_words(middle)
