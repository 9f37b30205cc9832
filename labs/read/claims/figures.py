"""Figures of several runs or kernels: reduced to one, and compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from labs.read.claims.ledger import Figure, as_figure, by_name
from labs.read.display.format import counted, figures_in_words, printable

Range = tuple[Figure | None, Figure | None]
"""From a lower to an upper figure."""
ALIKE_PCT = 5.0
"""How far figures are apart that are shown as one."""


def _are_numbers(values: Sequence[object]) -> bool:
    return all(isinstance(value, int | float) for value in values)


def reduced(by: Callable[[list[float]], float], figures: Sequence[Figure | None]) -> Figure | None:
    """Several figures as one, name by name; without a text that is not the same in all."""
    every = [by_name(figure) for figure in figures]
    result = {}
    for name in every[0]:
        values: list[Any] = [figure.get(name) for figure in every]
        if _are_numbers(values):
            result[name] = by(list(map(float, values)))
        elif len(set(values)) == 1:
            result[name] = values[0]
    return as_figure(result)


def alike(
    first: Figure | None, second: Figure | None, expected: Figure | None = None, spare: float = 0.0
) -> bool:
    """Whether two figures are so close, compared with the largest of them and of the article's,
    that one stands for both; `spare` apart they always are, and nothing is like anything. Of
    several figures those with the same name are compared."""

    def close(*values: Any) -> bool:
        numbers = [value for value in values if isinstance(value, int | float)]
        if not _are_numbers(values[:2]):
            return bool(values[0] == values[1])
        most: float = max(spare, ALIKE_PCT / 100 * max(map(abs, numbers)))
        return bool(abs(values[0] - values[1]) <= most)

    if first is None or second is None:
        return True
    one_side, other, wanted = by_name(first), by_name(second), by_name(expected)
    common = one_side.keys() & other.keys()
    return all(close(one_side[name], other[name], wanted.get(name)) for name in common)


def overlap(first: Range, second: Range) -> bool:
    """Whether two ranges have a value in common; of several figures, each of them."""
    (low, high), (least, most) = (map(by_name, ends) for ends in (first, second))
    common = low.keys() & least.keys()
    return not any(
        _above(low[name], most[name]) or _above(least[name], high[name]) for name in common
    )


def _above(first: Any, second: Any) -> bool:
    """Whether a number is above another, or a text is another one."""
    return bool(first > second if _are_numbers((first, second)) else first != second)


def describe_with_range(middle: Figure, ends: Range, count: int) -> str:
    """The median of draws with their range: `0.79 (0.74 to 0.81, 5 draws)`."""
    (low, high), draws = map(by_name, ends), counted(count, "draw")
    if not isinstance(middle, Mapping):
        span = _span(low[""], high[""])
        return f"{figures_in_words(middle)} ({f'{span}, ' * bool(span)}{draws})"
    each = [
        f"{printable(name)}: {figures_in_words(value)}{span and f' ({span})'}"
        for name, value in middle.items()
        for span in [_span(low[name], high[name])]
    ]
    return f"{', '.join(each)} ({draws})"


def _span(low: Figure, high: Figure) -> str:
    """`0.74 to 0.81`; empty if both are the same in words."""
    ends = [figures_in_words(low), figures_in_words(high)]
    return " to ".join(ends) if ends[0] != ends[1] else ""
