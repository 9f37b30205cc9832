"""Sentences of a ledger, with figures filled in by name.

    {both.steady_mib_s:3}      a column of a condition, here in three digits
    {with -k:3}                a figure of the claim by its name
    {measured}, {expected}     the claim's one figure as measured, and the article's
    {factor}                   the measured figure divided by the article's
    {within}                   how far it is from the article's, and how far it may be
    {100 * a.x / b.x:.1f}      a formula
    [? and {more:size}]        left out if a figure in it is unknown or 0

A pattern of conditions gives a list: `{sweep-*.steady_mib_s:3}` is `1.60, 3.20`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from statistics import median
from typing import Any

from labs.drive.units import MIB
from labs.errors import BadInput
from labs.read.claims.formulas import Formula, Look, parse
from labs.read.display.format import (
    counted,
    in_digits,
    in_three_digits,
    milliseconds,
    printable,
    size_in_words,
)

UNKNOWN = "unknown"
RANGE, INTERVAL = "range", "interval"
"""The formats of a list as its median with its range, and of a ratio with its interval."""
OPTIONAL = re.compile(r"\[\?(.*?)\]")
PLACE = re.compile(r"\{([^{}]+)\}")
FORMATS: Mapping[str, Callable[[Any], str]] = {
    "": in_digits,
    "3": in_three_digits,
    "size": size_in_words,
    "mib": lambda value: f"{value / MIB:g} MiB",
    "pct": lambda value: f"{value:.3g} %",
    "ms": milliseconds,
    "count": lambda value: f"{value:,.0f}",
    "packets": lambda value: counted(int(value), "packet"),
}
SPEC = re.compile(r"\+?,?\.\d[fg]")
"""What Python knows of formats besides: a sign, groups of digits, a number of decimals."""


def check(text: str) -> Iterator[Formula]:
    """The formulas of a sentence; BadInput for an unknown format, or for what is no formula."""
    for place in PLACE.findall(text):
        name, _, how = place.partition(":")
        if how not in (*FORMATS, RANGE, INTERVAL) and not SPEC.fullmatch(how):
            raise BadInput(
                f"{{{place}}} has an unknown format. Allowed: "
                f"{', '.join(filter(None, FORMATS))}, {RANGE}, or such as .1f"
            )
        yield formula_of(name)
    if re.search(r"[{}]", PLACE.sub("", text)):
        raise BadInput(f"{text!r} has a single brace. Allowed: {{condition.column}}")


@cache
def formula_of(name: str) -> Formula:
    """The formula in a place of a sentence: a name with blanks is that of a figure."""
    try:
        return parse(name)
    except BadInput:
        return parse(f"{{{name}}}")


def describe(text: str, look: Look) -> str:
    """The sentence with its figures; the optional parts only with all of theirs."""

    def optional(part: re.Match[str]) -> str:
        places = [place.partition(":")[0] for place in PLACE.findall(part[1])]
        values = [formula_of(place).value(look) for place in places]
        return part[1] if all(values) else ""

    return PLACE.sub(lambda place: _filled(place[1], look), OPTIONAL.sub(optional, text))


def _filled(place: str, look: Look) -> str:
    name, _, how = place.partition(":")
    value = formula_of(name).value(look)
    if isinstance(value, list) and how == INTERVAL:
        low, middle, high = value
        return f"{middle:.3g} (95 % bootstrap interval {low:.3g} to {high:.3g})"
    if isinstance(value, list) and how == RANGE:
        return _range([each for each in value if each is not None])
    if isinstance(value, list):
        return ", ".join(_in_words(each, how) for each in value) or "none"
    return _in_words(value, how)


def _range(values: list[float]) -> str:
    """The median and the range: 3.9 (3.1 to 4.5)."""
    if not values:
        return UNKNOWN
    middle, low, high = (in_digits(round(of(values), 2)) for of in (median, min, max))
    return middle if len(values) == 1 else f"{middle} ({low} to {high})"


def _in_words(value: Any, how: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return FORMATS[how](value) if how in FORMATS else format(value, how)
    return UNKNOWN if value is None else printable(str(value))
