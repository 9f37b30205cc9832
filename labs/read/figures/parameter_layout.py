"""Where a chart draws each varied parameter: on the x axis, as lines, or as panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

from labs.drive.parameters.declare import plain, unknown
from labs.errors import BadInput
from labs.read.display.format import heading, in_three_digits

if TYPE_CHECKING:
    from pandas import DataFrame

CONDITION = "condition"
MOST_LINES = 6
"""The number of colours of the palette that can be distinguished in one panel."""
MOST_PANELS = 6
"""The maximum number of columns, and of rows, of panels: a phone shows no more."""


@dataclass(frozen=True)
class Layout:
    """The columns of the table that determine x positions, lines and panels. `line` has one line,
    or one bar of each group, per value."""

    x: str
    line: str | None
    columns: str | None
    rows: str | None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that determine the position of a value, except its line."""
        return tuple(name for name in (self.x, self.columns, self.rows) if name is not None)

    def has_numbers(self, table: DataFrame) -> bool:
        """Whether the x axis has numbers, so that lines are drawn; otherwise bars are drawn."""
        return self.x != CONDITION and _is_numeric(table[self.x])

    def in_order(self, table: DataFrame) -> DataFrame:
        """The rows in the order of panels and lines: numbers ascend, words are as they come.
        BadInput for two rows at one place."""
        names = [*self.names, *([self.line] if self.line else [])]
        twice = table[table.duplicated(names)]
        if not twice.empty:
            where = ", ".join(f"{name} {plain(twice[name].iloc[0])}" for name in names)
            raise BadInput(
                f"several rows have {where}. Name the other varied parameters in `over`, or select "
                "rows"
            )
        for name in (self.x, self.line, self.columns, self.rows):
            if name:
                place = values_of(table, name).index
                table = table.sort_values(name, key=lambda values: values.map(place), kind="stable")
        return table


def together(
    table: DataFrame, over: Sequence[str], named: Sequence[str | None] = ()
) -> dict[str, tuple[str, ...]]:
    """The varied parameters to draw, each with those that advance with it: over all rows, each
    value of one occurs with exactly one value of the other. The first of them is drawn, or those
    that are `named`."""
    drawn: dict[str, list[str]] = {}
    for name in sorted(over, key=lambda name: name not in named):
        first = next((other for other in drawn if _one_to_one(table, other, name)), None)
        if first is None or name in named:
            drawn[name] = []
        else:
            drawn[first].append(name)
    return {name: tuple(drawn[name]) for name in over if name in drawn}


def _one_to_one(table: DataFrame, a: str, b: str) -> bool:
    """Whether two columns that vary determine each other."""
    pairs = len(table[[a, b]].drop_duplicates())
    return 1 < pairs == table[a].nunique() == table[b].nunique()


def fitted(table: DataFrame, over: Sequence[str]) -> tuple[DataFrame, dict[str, Any]]:
    """The rows that fit in one figure, and the first value of each parameter that was fixed.

    A parameter, or the condition, is fixed if it has more values than lines or panels can show,
    or if the x axis, the lines and the panels are taken by others.
    """
    fixed: dict[str, Any] = {}
    while True:
        drawn = together(table, over)
        layout, left, counts = _placed(table, tuple(drawn))
        rest = [*(name for _, name, _ in _too_many(layout, counts)), *left]
        if not rest:
            return table, fixed
        name = rest[0]
        fixed |= {also: table[also].iloc[0] for also in (name, *drawn.get(name, ()))}
        table = table[table[name] == fixed[name]].reset_index(drop=True)


def drawable(
    table: DataFrame, over: Sequence[str], named: Sequence[str | None], *, fit: bool
) -> tuple[DataFrame, tuple[str, ...], str]:
    """The rows and the parameters to draw, and in words, with line breaks, what is not drawn: see
    `together` and, with `fit` and without `named` parameters, `fitted`."""
    fixed: dict[str, Any] = {}
    if fit and not any(named):
        table, fixed = fitted(table, over)
    drawn = together(table, [name for name in over if name not in fixed], named)
    phrases = [f"{' and '.join(more)} with {name}" for name, more in drawn.items() if more]
    if fixed:
        values = ", ".join(f"{name} = {plain(value)}" for name, value in fixed.items())
        others = ", ".join(f"{name}=..." for name in fixed)
        phrases.insert(0, f"{values}; others: chart({others})")
    return table, tuple(drawn), "<br>".join(phrases)


def layout_of(
    table: DataFrame,
    over: Sequence[str],
    *,
    x: str | None = None,
    columns: str | None = None,
    rows: str | None = None,
) -> Layout:
    """Where each varied parameter is drawn; BadInput if they do not fit.

    Without `x`, the numeric parameter with the most values is on the x axis. Lines are conditions
    or, with a single condition, values of the next parameter. The others are columns, then rows.
    """
    layout, left, counts = _placed(table, over, x, columns, rows)
    if left:
        raise BadInput(
            f"{left[0]} does not fit: the x axis has {layout.x}, the lines {layout.line}, the "
            f"panels {layout.columns} and {layout.rows}. Fix one of them, as in "
            f"chart({left[0]}={_first(table, left[0])})"
        )
    for what, name, most in _too_many(layout, counts):
        raise BadInput(
            f"{name} has {counts[name]} values; allowed: {most} {what}. Restrict it, as in "
            f'chart({name}=[{_first(table, name)}]), or draw it as x="{name}"'
        )
    return layout


def _placed(
    table: DataFrame,
    over: Sequence[str],
    x: str | None = None,
    columns: str | None = None,
    rows: str | None = None,
) -> tuple[Layout, list[str], Mapping[str, int]]:
    """The layout, the parameters that do not fit, and the number of values of each parameter."""
    counts = {name: table[name].nunique() for name in (*over, CONDITION) if name in table}
    given = [name for name in (x, columns, rows) if name is not None]
    for name in given:
        if name not in counts:
            raise BadInput(f"{name} does not vary here; allowed: {', '.join(counts)}")
        if given.count(name) > 1:
            raise BadInput(f"{name} is named twice. Name it once, as x, columns or rows")
    left = [name for name in counts if counts[name] > 1 and name not in given]
    if x is None:
        x = _x_axis(table, left or [name for name in counts if name not in given], counts)
        left = [name for name in left if name != x]
    line = None
    if CONDITION in left or (left and counts[left[0]] <= MOST_LINES and columns is None):
        line = CONDITION if CONDITION in left else left[0]
        left.remove(line)
    if left and columns is None:
        columns = left.pop(0)
    if left and rows is None:
        rows = left.pop(0)
    return Layout(x, line, columns, rows), left, counts


def _x_axis(table: DataFrame, names: Sequence[str], counts: Mapping[str, int]) -> str:
    """The numeric parameter with the most values, or else the first parameter or the condition."""
    parameters = [name for name in names if name != CONDITION]
    numeric = [name for name in parameters if _is_numeric(table[name])]
    return max(numeric or parameters[:1] or names, key=lambda name: counts[name])


def _too_many(layout: Layout, counts: Mapping[str, int]) -> list[tuple[str, str, int]]:
    """The kinds of panels and lines of which a figure cannot show so many, with the column of the
    table and the maximum."""
    shown = (
        ("columns", layout.columns, MOST_PANELS),
        ("rows", layout.rows, MOST_PANELS),
        ("lines", layout.line, MOST_LINES),
    )
    return [(what, name, most) for what, name, most in shown if name and counts[name] > most]


def values_of(table: DataFrame, name: str) -> list[Any]:
    """The values of a column, numbers in ascending order."""
    values = list(dict.fromkeys(table[name].tolist()))
    return sorted(values) if _is_numeric(table[name]) else values


def _is_numeric(column: Any) -> bool:
    return all(isinstance(value, Real) and not isinstance(value, bool) for value in column.tolist())


def _first(table: DataFrame, name: str) -> str:
    """The first value of a column, as Python code."""
    value = table[name].iloc[0]
    return f'"{value}"' if isinstance(value, str) else plain(value)


def in_words(table: DataFrame, layout: Layout, column: str, unit: str, predicted: str) -> str:
    """The range of each line, with the places of its extremes, and the largest deviation from the
    predictions."""
    phrases = []
    for line in values_of(table, layout.line) if layout.line else [None]:
        of_line = table if line is None else table[table[layout.line] == line]
        ordered = of_line.sort_values(column, kind="stable").to_dict("records")
        ends = (
            f"{in_three_digits(row[column])} {unit}".strip() + f" at {_place(row, layout)}"
            for row in (ordered[0], ordered[-1])
        )
        named = "" if line is None else f"{layout.line} {plain(line)}: "
        phrases.append(named + " to ".join(ends))
    return f"{'; '.join(phrases)}.{_deviation(table, layout, column, predicted)}"


def _deviation(table: DataFrame, layout: Layout, column: str, predicted: str) -> str:
    if not predicted:
        return ""
    ratio = table[column].astype(float) / table[predicted].astype(float).replace(0.0, float("nan"))
    off = (ratio - 1).abs()
    if off.isna().all():
        return ""
    row = table.iloc[int(off.argmax())].to_dict()
    named = [] if CONDITION in layout.names else [str(row.get(CONDITION, ""))]
    where = ", ".join(filter(None, [*named, _place(row, layout)]))
    return f" The largest deviation from the prediction is {100 * off.max():.3g} %, at {where}."


def _place(row: Mapping[Any, Any], layout: Layout) -> str:
    return ", ".join(f"{name} {plain(row[name])}" for name in layout.names)


def restricted(table: DataFrame, over: Sequence[str], fixed: Mapping[str, Any]) -> DataFrame:
    """The rows whose varied parameters (`over`) and condition have the values in `fixed`, which has
    one or several values per name. BadInput for an unknown name or value."""
    for name, values in fixed.items():
        if name not in (*over, CONDITION):
            raise BadInput(unknown(name, [*over, CONDITION], "varied parameter"))
        wanted = list(values) if is_many(values) else [values]
        there = list(dict.fromkeys(table[name]))
        for value in wanted:
            if value not in there:
                raise BadInput(
                    f"{name} has no value {plain(value)}; allowed: {', '.join(map(plain, there))}"
                )
        table = table[table[name].isin(wanted)]
    return table


def is_many(values: object) -> bool:
    """Whether a restriction names several values."""
    return isinstance(values, list | tuple | range | set)


def names_in_words(names: Sequence[str]) -> str:
    """`rate, delay and kernel`."""
    words = [heading(name).partition(" (")[0] for name in names]
    words = [word[:1].lower() + word[1:] if word[1:].islower() else word for word in words]
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
