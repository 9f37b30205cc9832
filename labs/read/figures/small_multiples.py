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
from labs.read.figures.heatmap import HeatMap
from labs.read.figures.lines import BARS, LOOKS, MEASURED, Lines, Prediction
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
from labs.read.figures.style import BLACK, NO_RUNS, TO_CAPTION_PX, log_ticks, nothing

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

MARK_PX = 7
"""The size of the last line's markers; those of lines below it are larger."""
MOST_TICKS = 4
"""Of up to so many values on the x axis each has a tick."""
PANEL_PX, ONE_PANEL_PX = 150, 300
DECADE, MOST_TIMES = 10.0, 100.0
"""An axis is logarithmic beyond the first, and beyond the second only powers of ten have ticks."""
LETTER_PX, PHONE_PX = 7, 250
"""The width of a letter, and the width of all panels on a phone."""
CHOICE = "_choice"
"""The column with the words of a choice on the x axis."""
LINE = Look("", "", width=1.5, mode="lines")
STROKE = Look(BLACK, symbol="line-ew-open", size=20, mode="markers")
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
        rows=lambda rows: rows.assign(**{CHOICE: rows[layout.x].map(plain)}),
        panel_of=form,
        by=layout.columns or "",
        below=layout.rows or "",
        across=across,
        above=_above(layout, units or {}),
        caption=lambda rows: "<br>".join(filter(None, [origin, left_out, key, note])),
        describe=lambda rows: f"{title}. {in_words(rows, layout, column, unit, expected)}",
        table=lambda rows: rows[[name for name in shown if name in rows]],
    )(points)
    px = _upright_px([*map(plain, values_of(points, layout.x))], across)
    return _turned(figure, px) if form.mode == BARS and px > 0 else figure


def _upright_px(choices: Sequence[str], across: int) -> int:
    """The height of vertical labels of choices; 0 if horizontal ones fit on a phone, in so many
    panels side by side."""
    longest = max(map(len, choices))
    fits = (longest + 1) * LETTER_PX * len(choices) * across <= PHONE_PX
    return 0 if fits else (longest - 1) * LETTER_PX


def _turned(figure: Figure, px: int) -> Figure:
    """The figure with vertical labels of this height above its caption."""
    figure.update_annotations(selector={"name": "caption"}, yshift=-TO_CAPTION_PX - px)
    margin_b, height = figure.layout.margin.b + px, figure.layout.height + px
    return figure.update_layout(margin_b=margin_b, height=height).update_xaxes(tickangle=-90)


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


def _key(form: Lines) -> str:
    if form.mode != BARS:
        return "markers: measured; lines: predicted"
    measured = "markers" if form.up.log else "bars"
    return f"{measured}: measured; black lines: predicted"


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
) -> Lines:
    """A panel: measured values as markers and predictions as lines, or bars of choices. Without
    predictions, a line connects the measured values."""
    xs, lines = values_of(points, layout.x), values_of(points, layout.line) if layout.line else []
    values = [value for name in filter(None, [column, expected]) for value in points[name].dropna()]
    x, y = _axis(layout.x, units.get(layout.x, "")), _upward(_axis(column, unit), values)
    sizes = range(MARK_PX + 2 * (len(lines) - 1), 0, -2)
    looks = {
        line: replace(look, size=size)
        for line, look, size in zip(lines, LOOKS, sizes, strict=False)
    }
    if layout.has_numbers(points):
        x = replace(x, log=_spans_a_decade(xs), ticks=_ticks(xs, is_narrow=across > NARROW))
        mode, look = "markers" if expected else "lines+markers", LINE
    else:
        choices = {name: name for name in map(plain, xs)}
        x, mode, look = replace(x, column=CHOICE, category=True, ticks=choices), BARS, STROKE
    return Lines(
        "",
        x=x,
        y=y,
        by=layout.line,
        named={line: _line_name(layout, line, units) for line in lines},
        looks=looks or {MEASURED: replace(LOOKS[0], size=MARK_PX)},
        predicted=Prediction(expected, each=True, look=look),
        mode=mode,
        height=PANEL_PX if layout.rows else ONE_PANEL_PX,
    )


def _upward(axis: Axis, values: Sequence[float]) -> Axis:
    """The axis of the values: logarithmic, or with zero if none is below."""
    low, high = min(values), max(values)
    if not _spans_a_decade(values):
        return replace(axis, begins_at_0=low >= 0)
    is_long = high > MOST_TIMES * low
    ticks = [tick for tick in log_ticks(low, high) if not is_long or log10(tick) % 1 == 0]
    return replace(axis, log=True, ticks={tick: f"{tick:g}" for tick in ticks})


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
