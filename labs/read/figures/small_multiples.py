"""Small multiples: a column of a table over varied parameters, in panels with common axes.

A numeric parameter on the x axis has one line per condition, or per value of another parameter; a
choice, a kernel or the condition has bars. Up to two further parameters divide the figure into
columns and rows of panels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import log10
from typing import TYPE_CHECKING, Any

from labs.drive.parameters.declare import plain
from labs.errors import BadInput
from labs.read.display.format import heading
from labs.read.display.provenance import of_points
from labs.read.figures.axes import Axis
from labs.read.figures.choices import Choices, upright_px
from labs.read.figures.heatmap import HeatMap
from labs.read.figures.lines import LOOKS, MEASURED, Lines, Prediction
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
ROOM, LOG_ROOM = 1.08, 0.06
"""The end of an axis that begins at 0, as a share of the largest value; the room at both ends of a
logarithmic one, as a share of its length."""
MOST_POWERS = 5
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
    across = points[layout.columns].nunique() if layout.columns else 1
    shown = dict.fromkeys([*over, CONDITION, column, *filter(None, [expected])])
    title = _title(column, drawn)
    form = _panel(points, layout, column, unit, expected, units or {}, across)
    key = _key(form) if expected else ""
    figure = Multiples(
        title,
        panel_of=form,
        by=layout.columns or "",
        below=layout.rows or "",
        across=across,
        above=_above(layout, units or {}),
        caption=lambda rows: "<br>".join(filter(None, [origin, left_out, key, note])),
        describe=lambda rows: f"{title}. {in_words(rows, layout, column, unit, expected)}",
        table=lambda rows: rows[[name for name in shown if name in rows]],
    )(points)
    return _lower(figure, upright_px(form.choices, across)) if isinstance(form, Choices) else figure


def _lower(figure: Figure, px: int) -> Figure:
    """The figure with room for vertical labels above its caption."""
    for text in figure.select_annotations({"name": "caption"}):
        text.yshift -= px
    margin_b, height = figure.layout.margin.b + px, figure.layout.height + px
    return figure.update_layout(margin_b=margin_b, height=height)


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


def _key(form: Lines | Choices) -> str:
    if isinstance(form, Lines):
        return "markers: measured; lines: predicted"
    return f"{'markers' if form.y.log else 'bars'}: measured; black lines: predicted"


def _above(layout: Layout, units: Units) -> str:
    """What the columns and the rows of panels are."""
    words = {"columns": layout.columns, "rows": layout.rows}
    return "; ".join(
        f"{what}: {heading(name, units.get(name, ''))}" for what, name in words.items() if name
    )


def _panel(
    points: DataFrame,
    layout: Layout,
    column: str,
    unit: str,
    expected: str,
    units: Units,
    across: int,
) -> Lines | Choices:
    """A panel: measured values as markers and predictions as lines, or bars of choices. Without
    predictions, a line connects the measured values."""
    xs, lines = values_of(points, layout.x), values_of(points, layout.line) if layout.line else []
    values = [value for name in filter(None, [column, expected]) for value in points[name].dropna()]
    x, y = _axis(layout.x, units.get(layout.x, "")), _upward(_axis(column, unit), values)
    sizes = (MARK_PX + 2 * place for place in range(len(lines) - 1, -1, -1))
    named = {line: _line_name(layout, line, units) for line in lines}
    looks = {
        line: replace(look, size=size)
        for line, look, size in zip(lines, LOOKS, sizes, strict=False)
    }
    height = PANEL_PX if layout.rows else ONE_PANEL_PX
    if not layout.has_numbers(points):
        return Choices(
            "",
            x=x,
            y=y,
            by=layout.line,
            choices=tuple(xs),
            looks=looks or {None: replace(LOOKS[0], size=MARK_PX)},
            named=named or {None: MEASURED},
            predicted=expected,
            upright=upright_px(tuple(xs), across) > 0,
            height=height,
        )
    ticks = _ticks(xs, is_narrow=across > NARROW)
    return Lines(
        "",
        x=replace(x, log=_spans_a_decade(xs), ticks=ticks),
        y=y,
        by=layout.line,
        named=named,
        looks=looks,
        predicted=Prediction(expected, each=True, look=Look("", "", width=1.5), mode="lines"),
        mode="markers" if expected else "lines+markers",
        height=height,
    )


def _upward(axis: Axis, values: Sequence[float]) -> Axis:
    """The axis of the values, common to all panels: logarithmic, or with zero if none is below."""
    low, high = min(values), max(values)
    if not _spans_a_decade(values):
        return replace(axis, range=None if low < 0 else (0, ROOM * (high or 1)))
    ticks = log_ticks(low, high)
    if len(ticks) > MOST_POWERS:
        ticks = [tick for tick in ticks if log10(tick) % 1 == 0]
    room = (high / low) ** LOG_ROOM
    labels = {tick: f"{tick:g}" for tick in ticks}
    return replace(axis, log=True, ticks=labels, range=(low / room, high * room))


def _line_name(layout: Layout, line: Any, units: Units) -> str:
    """The condition, or the value of a parameter with its unit."""
    name = layout.line or ""
    if name == CONDITION:
        return str(line)
    unit = _axis(name, units.get(name, "")).unit
    return f"{names_in_words([name])} {plain(line)} {unit}".strip()


def _ticks(xs: Sequence[float], *, is_narrow: bool) -> Mapping[float, str]:
    """The values of the parameter, if there is room for them; empty for plotly's choice."""
    ticks = [*xs] if len(xs) <= MOST_TICKS else log_ticks(xs[0], xs[-1]) * _spans_a_decade(xs)
    return {tick: f"{tick:g}" for tick in ([xs[0], xs[-1]] if is_narrow else ticks)}


def _spans_a_decade(values: Sequence[float]) -> bool:
    return min(values) > 0 and max(values) > DECADE * min(values)
