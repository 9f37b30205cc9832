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
    named: list[Mapping[str, Any]] = [figure for figure in figures if isinstance(figure, Mapping)]
    if isinstance(first, Mapping) and len(named) == len(figures):
        common = [name for name in first if all(name in figure for figure in named)]
        every = {name: reduced(by, [figure[name] for figure in named]) for name in common}
        return {
            name: figure for name, figure in every.items() if isinstance(figure, int | float | str)
        }
    numbers = [float(figure) for figure in figures if isinstance(figure, int | float)]
    if len(numbers) == len(figures):
        return by(numbers)
    return first if all(figure == first for figure in figures) else None


def alike(
    first: Figure | None, second: Figure | None, expected: Figure | None = None, spare: float = 0.0
) -> bool:
    """Whether two figures are so close, compared with the largest of them and of the article's,
    that one stands for both; `spare` apart they always are, and nothing is like anything. Of
    several figures those with the same name are compared."""
    if first is None or second is None:
        return True
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        wanted = expected if isinstance(expected, Mapping) else {}
        common = first.keys() & second.keys()
        return all(alike(first[name], second[name], wanted.get(name), spare) for name in common)
    if isinstance(first, int | float) and isinstance(second, int | float):
        numbers = [each for each in (first, second, expected) if isinstance(each, int | float)]
        return abs(first - second) <= max(spare, ALIKE_PCT / 100 * max(map(abs, numbers)))
    return first == second


def overlap(first: Range, second: Range) -> bool:
    """Whether two ranges have a value in common; of several figures, each of them."""
    (low, high), (least, most) = first, second
    for a, b in ((low, most), (least, high)):
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            if any(_above(a[name], b[name]) for name in a.keys() & b.keys()):
                return False
        elif _above(a, b):
            return False
    return True


def _above(first: Figure | None, second: Figure | None) -> bool:
    """Whether a number is above another, or a text is another one."""
    if isinstance(first, int | float) and isinstance(second, int | float):
        return first > second
    return first != second


def describe_with_range(middle: Figure, ends: Range, count: int) -> str:
    """The median of draws with their range: `0.79 (0.74 to 0.81, 5 draws)`."""
    low, high = ends
    draws = counted(count, "draw")
    if isinstance(middle, Mapping) and isinstance(low, Mapping) and isinstance(high, Mapping):
        each = (
            f"{printable(name)}: {figures_in_words(value)}{_span(low[name], high[name])}"
            for name, value in middle.items()
        )
        return f"{', '.join(each)} ({draws})"
    span = _span(low, high)
    return f"{figures_in_words(middle)}{f'{span[:-1]}, {draws})' if span else f' ({draws})'}"


def _span(low: Figure | None, high: Figure | None) -> str:
    """` (0.74 to 0.81)`; empty if both are the same in words."""
    ends = [figures_in_words(low), figures_in_words(high)]
    return f" ({' to '.join(ends)})" if ends[0] != ends[1] else ""
