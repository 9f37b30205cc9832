"""Formulas of a ledger, arithmetic and comparisons of figures, and sentences with these.

    off.packets > 1.05 * on.packets            columns of conditions, and numbers
    a~b.p50_us                                 of the repetitions of two conditions: the ratio of
                                               the medians, between the ends of its interval
    median(abs(flow-*.share_pct - 50))         of a pattern of conditions, a value for each of them
    {with -k} >= 50                            a figure of the claim by its name, `allowed`: the
                                               claim's tolerance as a share
    p50_ms                                     a column of the claim's first condition
    reaches(0.95, VALUES, SIZES)               the smallest size with 95 % of the largest value
    after(0.95, VALUES, SIZES)                 the smallest value from that size on
    farthest(2, VALUES)                        the value that is farthest from 2, as a ratio
    highest(VALUES, VALUES)                    the highest of each place; also lowest
    where(VALUES, COMPARISON)                  the values where it is true; the others are unknown

Operators are written between blanks, because names of conditions contain `-`, `.` and `*`. A
formula with an unknown value is unknown; a quotient by 0 is infinite, and 0 / 0 is NaN.


A sentence has formulas in its places:

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

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from math import ceil, inf, nan
from statistics import median
from typing import Any

from labs.errors import BadInput
from labs.guest.units import MIB
from labs.read.display.format import (
    counted,
    in_digits,
    in_three_digits,
    milliseconds,
    printable,
    size_in_words,
)

Value = Any
"""A cell of a row, or a list with one for each condition that matches a pattern."""
Look = Callable[[str], Value]
"""The value of a reference."""
TOKEN = re.compile(r"\{[^{}]*\}|[(),]|[^\s(),{}]+")
NUMBER = re.compile(r"\d+(\.\d+)?(e-?\d+)?")
LONGEST = 400


def _divided(over: float, under: float) -> float:
    if under:
        return over / under
    return nan if not over else inf


OPERATORS: Mapping[str, tuple[type[ast.AST], Callable[[Any, Any], Any]]] = {
    "+": (ast.Add, operator.add),
    "-": (ast.Sub, operator.sub),
    "*": (ast.Mult, operator.mul),
    "/": (ast.Div, _divided),
    "<": (ast.Lt, operator.lt),
    "<=": (ast.LtE, operator.le),
    ">": (ast.Gt, operator.gt),
    ">=": (ast.GtE, operator.ge),
    "==": (ast.Eq, operator.eq),
}
COMPUTED = dict(OPERATORS.values())


def _each(compute: Callable[..., Value], *values: Value) -> Value:
    """A function of values, or of each of the lists among them; None if one of them is unknown."""
    lengths = {len(value) for value in values if isinstance(value, list)}
    if not lengths:
        return None if any(value is None for value in values) else compute(*values)
    if len(lengths) > 1:
        return None
    columns = [value if isinstance(value, list) else [value] * max(lengths) for value in values]
    return [_each(compute, *row) for row in zip(*columns, strict=True)]


def _over(compute: Callable[[list[Any]], Any], *values: Value) -> Value:
    """A function of all values that are known; None without any."""
    every = [each for value in values for each in (value if isinstance(value, list) else [value])]
    known_values = [each for each in every if each is not None]
    return compute(known_values) if known_values else None


def farthest(figure: float, *values: Value) -> Value:
    """The value that is farthest from a figure, as a ratio."""
    return _over(lambda every: max(every, key=lambda value: abs(value / figure - 1)), *values)


def _points(values: list[Any], sizes: list[Any]) -> list[tuple[float, float]]:
    """The sizes with their values, by size, without those that are unknown."""
    pairs = zip(sizes, values, strict=True)
    return sorted((at, value) for at, value in pairs if None not in (at, value))


def reaches(share: float, values: list[Any], sizes: list[Any]) -> float | None:
    """The smallest size whose value is at least this share of the largest value."""
    points = _points(values, sizes)
    most = max((value for _, value in points), default=0)
    return next((at for at, value in points if value >= share * most), None)


def after(share: float, values: list[Any], sizes: list[Any]) -> float | None:
    """The smallest value from that size on."""
    first, points = reaches(share, values, sizes), _points(values, sizes)
    return None if first is None else min(value for at, value in points if at >= first)


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "median": partial(_over, median),
    "min": partial(_over, min),
    "max": partial(_over, max),
    "count": lambda *values: _over(len, *values) or 0,
    "abs": partial(_each, abs),
    "round": partial(_each, round),
    "ceil": partial(_each, ceil),
    "highest": partial(_each, max),
    "lowest": partial(_each, min),
    "where": partial(_each, lambda value, holds: value if holds else None),
    "farthest": farthest,
    "reaches": reaches,
    "after": after,
}


@dataclass(frozen=True)
class Formula:
    """A formula as a tree, with what it refers to by the names in the tree."""

    tree: ast.expr
    references: Mapping[str, str]

    def value(self, look: Look) -> Value:
        """The value with that of each reference; None if one of them is unknown."""
        return _value(self.tree, lambda name: look(self.references[name]))


@cache
def parse(text: str) -> Formula:
    """Read a formula; BadInput for what is none."""
    references: dict[str, str] = {}
    words = " ".join(_words(text[: LONGEST + 1], references))
    try:
        formula = Formula(ast.parse(words, mode="eval").body, references)
        formula.value(lambda name: [])  # KeyError for what is not a part of formulas
        if len(text) <= LONGEST:
            return formula
    except (SyntaxError, ValueError, RecursionError, MemoryError, KeyError):
        pass
    raise BadInput(
        f"{text!r} is not a formula. Allowed: columns, as condition.column, numbers, "
        f"{' '.join(OPERATORS)} between blanks, and {', '.join(FUNCTIONS)} with parentheses"
    )


def _words(text: str, references: dict[str, str]) -> Iterator[str]:
    """The formula with a plain name for each reference."""
    for token in TOKEN.findall(text):
        if token in OPERATORS or token in "()," or token in FUNCTIONS or NUMBER.fullmatch(token):
            yield token
            continue
        name = f"v{len(references)}"
        references[name] = token
        yield name


def _value(tree: ast.AST, look: Look) -> Value:
    match tree:
        case ast.Constant(value):
            return value
        case ast.Name(name):
            return look(name)
        case ast.BinOp(left, op, right) | ast.Compare(left, [op], [right]):
            return _each(COMPUTED[type(op)], _value(left, look), _value(right, look))
        case ast.Call(ast.Name(name), [_, *_] as arguments, []):
            return FUNCTIONS[name](*(_value(argument, look) for argument in arguments))
    raise KeyError(tree)


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
