"""Charts of a table over varied parameters: small multiples with common axes, or bars.

A numeric parameter on the x axis has one line per condition, or per value of another parameter; up
to two further parameters divide the figure into columns and rows of panels. A choice, a kernel or
the condition has bars.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from labs.drive.parameters.declare import plain
from labs.errors import BadInput
from labs.read.display.format import heading
from labs.read.display.provenance import of_points
from labs.read.figures.axes import DIGITS, Axis
from labs.read.figures.bars import Bar, Bars
from labs.read.figures.declaration import Declared
from labs.read.figures.heatmap import HeatMap
from labs.read.figures.lines import LOOKS, Lines, Prediction
from labs.read.figures.panels import NARROW, Multiples
from labs.read.figures.parameter_layout import (
    CONDITION,
    Layout,
    drawable,
    in_words,
    layout_of,
    names_in_words,
    values_of,
)
from labs.read.figures.plot import Look
from labs.read.figures.style import NO_RUNS, log_ticks, nothing

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

MARK_PX = 7
"""The size of the last line's markers; those of lines below it are larger."""
MOST_TICKS = 4
"""Of up to so many values on the x axis each has a tick."""
PANEL_PX, ONE_PANEL_PX = 150, 300
DECADE = 10.0
PLACE = "place"
KEY = "markers: measured; lines: predicted"
Units = Mapping[str, str]


def small_multiples(
    table: DataFrame,
    column: str,
    *,
    over: Sequence[str],
    unit: str,
    predicted: str | None = None,
    x: str | None = None,
    columns: str | None = None,
    rows: str | None = None,
    units: Units | None = None,
    caption: Callable[[DataFrame], str] | None = None,
    note: str = "",
    fit: bool = False,
) -> Figure:
    """One column of a table over varied parameters.

    `table` has one row per point and condition: the columns `over` (the varied parameters),
    `condition`, `column` in `unit`, and `predicted`, its prediction, if there is one. `x`,
    `columns` and `rows` name the parameters of the x axis and of the panels; those not given are
    chosen (`layout_of`). `units` has the units of parameters whose names have none.
    `caption` replaces the origin of the drawn rows; `note` follows it. Of parameters that advance
    together, one is drawn. With `fit`, and without `x`, `columns` and `rows`, parameters that do
    not fit are fixed at their first values. The caption names both.

    BadInput for an unknown name, for several rows at one place, and for more lines or panels than
    can be distinguished; it says what to restrict.
    """
    if column not in table or table[column].isna().all():
        why = NO_RUNS if table.empty else f"no run has a value of {column}"
        return nothing(_title(column, over), why)
    points = table[table[column].notna()].reset_index(drop=True)
    points, drawn, left_out = drawable(points, over, (x, columns, rows), fit=fit)
    layout = layout_of(points, drawn, x=x, columns=columns, rows=rows)
    points = layout.in_order(points)
    has_prediction = predicted in points and points[predicted].notna().any()
    expected = str(predicted) if has_prediction else ""
    origin = caption(points) if caption else of_points(points, over)
    has_lines = layout.has_numbers(points)
    key = KEY if expected and has_lines else ""
    shown = dict.fromkeys([*over, CONDITION, column, *filter(None, [expected])])
    title = _title(column, drawn)
    form = (_lines if has_lines else _bars)(points, layout, column, unit, expected, units or {})
    return replace(
        form,
        title=title,
        caption=lambda rows: "<br>".join(filter(None, [origin, left_out, key, note])),
        describe=lambda rows: f"{title}. {in_words(rows, layout, column, unit, expected)}",
        table=lambda rows: rows[[name for name in shown if name in rows]],
    )(points)


def heatmap(
    table: DataFrame, column: str, x: str, y: str, *, unit: str, units: Units, caption: str
) -> Figure:
    """One column of a table by the parameters `x` and `y`, whose values are evenly spaced.

    `table` has one row per pair of values. If it has several, BadInput says what to restrict.
    """
    rows = table[table[column].notna()]
    if rows.duplicated([x, y]).any():
        raise BadInput(
            f"several rows have the same {x} and {y}. Restrict the other parameters, as in "
            'heatmap(COLUMN, X, Y, condition="default")'
        )
    across, up = (_axis(name, units.get(name, "")) for name in (x, y))
    return HeatMap(
        f"{heading(column, unit)} by {names_in_words([x, y])}",
        value=_axis(column, unit),
        x=across,
        y=up,
        caption=lambda rows: caption,
    )(rows)


def _title(column: str, over: Sequence[str]) -> str:
    return f"{heading(column).partition(' (')[0]} by {names_in_words(over or [CONDITION])}"


def _axis(name: str, unit: str, **more: Any) -> Axis:
    words, _, with_unit = heading(name, unit).partition(" (")
    return Axis(name, words, with_unit.removesuffix(")"), **more)


def _lines(
    points: DataFrame, layout: Layout, column: str, unit: str, expected: str, units: Units
) -> Declared:
    """Measured values as markers and predictions as lines; without predictions, a line connects the
    measured values. There is a panel for each value of `layout.columns` and of `layout.rows`."""
    xs = values_of(points, layout.x)
    values = [value for name in filter(None, [column, expected]) for value in points[name].dropna()]
    is_log = _spans_a_decade(values)
    across = points[layout.columns].nunique() if layout.columns else 1
    lines = values_of(points, layout.line) if layout.line else []
    sizes = (MARK_PX + 2 * place for place in range(len(lines) - 1, -1, -1))
    form = Lines(
        "",
        x=_axis(
            layout.x,
            units.get(layout.x, ""),
            log=_spans_a_decade(xs),
            ticks=_ticks(xs, is_narrow=across > NARROW),
        ),
        y=_axis(
            column,
            unit,
            log=is_log,
            ticks=DIGITS if is_log else "",
            begins_at_0=not is_log and min(values) >= 0,
        ),
        by=layout.line,
        named={line: _line_name(layout, line, units) for line in lines},
        looks={
            line: replace(look, size=size)
            for line, look, size in zip(lines, LOOKS, sizes, strict=False)
        },
        predicted=Prediction(expected, each=True, look=Look("", "", width=1.5), mode="lines"),
        mode="markers" if expected else "lines+markers",
        height=PANEL_PX if layout.rows else ONE_PANEL_PX,
    )
    named = {layout.columns: "columns", layout.rows: "rows"}
    return Multiples(
        "",
        panel_of=form,
        by=layout.columns or "",
        below=layout.rows or "",
        across=across,
        above="; ".join(
            f"{words}: {heading(name, units.get(name, ''))}"
            for name, words in named.items()
            if name
        ),
    )


def _line_name(layout: Layout, line: Any, units: Units) -> str:
    """The condition, or the value of a parameter with its unit."""
    name = layout.line or ""
    if name == CONDITION:
        return str(line)
    unit = _axis(name, units.get(name, "")).unit
    return f"{names_in_words([name])} {plain(line)} {unit}".strip()


def _bars(
    points: DataFrame, layout: Layout, column: str, unit: str, expected: str, units: Units
) -> Declared:
    """A row of bars for each value of the choice, and of the parameters that have panels where
    there are lines."""
    names = [name for name in (layout.rows, layout.columns, layout.x) if name]
    axis = _axis(column, unit)
    return Bars(
        "",
        rows=lambda rows: rows.assign(
            **{PLACE: rows[names].map(plain).agg(", ".join, axis="columns")}
        ),
        bars=(Bar(column, "measured", predicted=expected),),
        words=axis.words,
        unit=axis.unit,
        row=PLACE,
        by=layout.line,
        named=lambda line: _line_name(layout, line, units),
    )


def _ticks(xs: Sequence[float], *, is_narrow: bool) -> Mapping[float, str]:
    """The values of the parameter, if there is room for them; empty for plotly's choice."""
    ticks = [*xs] if len(xs) <= MOST_TICKS else log_ticks(xs[0], xs[-1]) * _spans_a_decade(xs)
    return {tick: f"{tick:g}" for tick in ([xs[0], xs[-1]] if is_narrow else ticks)}


def _spans_a_decade(values: Sequence[float]) -> bool:
    return min(values) > 0 and max(values) > DECADE * min(values)
