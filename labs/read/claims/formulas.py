"""Formulas of a ledger: arithmetic and comparisons of figures.

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

Operators are written between blanks, because names of conditions contain `-`, `.` and `*`. A
formula with an unknown value is unknown; a quotient by 0 is infinite, and 0 / 0 is NaN.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, inf, nan
from statistics import mean, median
from typing import Any

from labs.errors import BadInput

Value = Any
"""A cell of a row, or a list with one for each condition that matches a pattern."""
Look = Callable[[str], Value]
"""The value of a reference."""
TOKEN = re.compile(r"\{[^{}]*\}|[(),]|[^\s(),{}]+")
NUMBER = re.compile(r"\d+(\.\d+)?(e-?\d+)?")
LONGEST = 400
OPERATORS: Mapping[str, type[ast.AST]] = {
    **{"+": ast.Add, "-": ast.Sub, "*": ast.Mult, "/": ast.Div},
    **{"<": ast.Lt, "<=": ast.LtE, ">": ast.Gt, ">=": ast.GtE, "==": ast.Eq},
}


def _divided(over: float, under: float) -> float:
    if under:
        return over / under
    return nan if not over else inf


def farthest_from(figure: float, values: Sequence[float]) -> float:
    """The value that is farthest from a figure, as a ratio."""
    return max(values, key=lambda value: abs(value / figure - 1))


COMPUTED: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: _divided},
    **{ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge},
    ast.Eq: operator.eq,
}
REDUCTIONS: Mapping[str, Callable[[Sequence[Any]], Any]] = {
    **{"median": median, "mean": mean, "min": min, "max": max, "count": len, "sum": sum}
}
OF_EACH: Mapping[str, Callable[[Any], Any]] = {"abs": abs, "round": round, "ceil": ceil}
ACROSS: Mapping[str, Callable[..., Any]] = {"highest": max, "lowest": min}
FUNCTIONS = (*REDUCTIONS, *ACROSS, *OF_EACH, "farthest", "reaches", "after")


@dataclass(frozen=True)
class Formula:
    """A formula as a tree, with what it refers to by the names in the tree."""

    text: str
    tree: ast.expr
    references: Mapping[str, str]

    def value(self, look: Look) -> Value:
        """The value with that of each reference; None if one of them is unknown."""
        return _value(self.tree, lambda name: look(self.references[name]))


@cache
def parse(text: str) -> Formula:
    """Read a formula; BadInput for what is none."""
    references: dict[str, str] = {}
    words = list(_words(text, references))
    try:
        tree = ast.parse(" ".join(words), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = None
    if tree is None or len(text) > LONGEST or not _is_formula(tree):
        raise BadInput(
            f"{text!r} is not a formula. Allowed: columns, as condition.column, numbers, "
            f"{' '.join(OPERATORS)} between blanks, and {', '.join(FUNCTIONS)} with parentheses"
        )
    return Formula(text, tree, references)


def _words(text: str, references: dict[str, str]) -> Iterator[str]:
    """The formula with a plain name for each reference."""
    for token in TOKEN.findall(text):
        if token in OPERATORS or token in "()," or token in FUNCTIONS or NUMBER.fullmatch(token):
            yield token
            continue
        name = f"v{len(references)}"
        references[name] = token
        yield name


def _is_formula(tree: ast.AST) -> bool:
    """Whether a tree has nothing but what `_value` computes."""
    match tree:
        case ast.BinOp(left, op, right) | ast.Compare(left, [op], [right]):
            return type(op) in COMPUTED and _is_formula(left) and _is_formula(right)
        case ast.Call(ast.Name(name), arguments, []):
            return name in FUNCTIONS and bool(arguments) and all(map(_is_formula, arguments))
        case ast.Name(name):
            return name not in FUNCTIONS
        case ast.Constant(value):
            return isinstance(value, int | float)
    return False


def _value(tree: ast.AST, look: Look) -> Value:
    match tree:
        case ast.Constant(value):
            return value
        case ast.Name(name):
            return look(name)
        case ast.BinOp(left, op, right) | ast.Compare(left, [op], [right]):
            return _each(COMPUTED[type(op)], _value(left, look), _value(right, look))
        case ast.Call(ast.Name(name), arguments):
            return _called(name, [_value(argument, look) for argument in arguments])
    raise AssertionError(tree)


def _each(compute: Callable[..., Value], *values: Value) -> Value:
    """A function of values, or of each of the lists among them; None if one of them is unknown."""
    lengths = {len(value) for value in values if isinstance(value, list)}
    if not lengths:
        return None if any(value is None for value in values) else compute(*values)
    if len(lengths) > 1:
        return None
    rows = zip(
        *(value if isinstance(value, list) else [value] * max(lengths) for value in values),
        strict=True,
    )
    return [_each(compute, *row) for row in rows]


def reaches(share: float, values: list[Any], sizes: list[Any]) -> float | None:
    """The smallest size whose value is at least this share of the largest value."""
    points = _points(values, sizes)
    most = max((value for _, value in points), default=None)
    return None if most is None else next(at for at, value in points if value >= share * most)


def after(share: float, values: list[Any], sizes: list[Any]) -> float | None:
    """The smallest value from that size on."""
    first = reaches(share, values, sizes)
    if first is None:
        return None
    return min(value for at, value in _points(values, sizes) if at >= first)


def _points(values: list[Any], sizes: list[Any]) -> list[tuple[float, float]]:
    """The sizes with their values, by size, without those that are unknown."""
    pairs = zip(sizes, values, strict=True)
    return sorted((at, value) for at, value in pairs if None not in (at, value))


def _called(name: str, values: list[Value]) -> Value:
    """A function of the values that are known; None without any."""
    if name in ("reaches", "after"):
        return (reaches if name == "reaches" else after)(*values)
    if name in OF_EACH or name in ACROSS:
        return _each({**OF_EACH, **ACROSS}[name], *values)
    figure = values.pop(0) if name == "farthest" else 1.0
    every = [each for value in values for each in (value if isinstance(value, list) else [value])]
    every = [each for each in every if each is not None]
    if name == "count":
        return len(every)
    if not every:
        return None
    return farthest_from(figure, every) if name == "farthest" else REDUCTIONS[name](every)
