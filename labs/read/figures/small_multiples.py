"""Small multiples: a column of a table over varied parameters, measured and predicted, in panels
with common axes.

A numeric parameter on the x axis has one line per condition, or per value of another parameter; a
choice, a kernel or the condition has groups of bars. Up to two further parameters divide the figure
into columns and rows of panels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import log10
from typing import TYPE_CHECKING, Any

from plotly.graph_objects import Bar, Figure, Scatter
from plotly.subplots import make_subplots

from labs.drive.parameters.declare import plain
from labs.read.display.format import heading
from labs.read.display.provenance import of_points
from labs.read.figures.parameter_layout import (
    CONDITION,
    Panels,
    Quantity,
    drawable,
    in_words,
    layout_of,
    names_in_words,
    panels_of,
)
from labs.read.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    LEGEND_ABOVE,
    NO_RUNS,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    dressed,
    log_ticks,
    log_title,
    nothing,
)

if TYPE_CHECKING:
    from pandas import DataFrame

COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION)
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
"""A line remains visible below a later one, which is dashed and has smaller markers."""
MARK_PX = 7
FEW = 3
"""With up to this many columns of panels, their x axes have more ticks than the two ends."""
MOST_TICKS = 4
BARS = 0.8
"""The total width of the bars of a group."""
LETTER_PX, PHONE_PX = 7, 250
"""The width of a letter, and the total width of the panels on a phone."""
PANEL_PX, ONE_PANEL_PX, FRAME_PX, HEADING_PX = 150, 300, 150, 44
MARGIN_PX, ROWS_PX, TITLE_PX, LEGEND_PX = 24, 34, 52, 32
BESIDE_PX, BELOW_PX = 50, 40
"""The distance of an axis title from the panels."""
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
    title: str | None = None,
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
        return nothing(title or _title(column, over), why)
    points = table[table[column].notna()].reset_index(drop=True)
    points, drawn, left_out = drawable(points, over, (x, columns, rows), fit=fit)
    title = title or _title(column, drawn)
    has_prediction = predicted in points and points[predicted].notna().any()
    quantity = Quantity(column, unit, predicted if has_prediction else None)
    layout = layout_of(points, drawn, x=x, columns=columns, rows=rows)
    panels = panels_of(points, layout, quantity)
    figure = _drawn(points, panels, quantity, units or {})
    key = _key(panels) if has_prediction else ""
    height = PANEL_PX * len(panels.rows) if len(panels.rows) > 1 else ONE_PANEL_PX
    shown = dict.fromkeys([*over, CONDITION, *quantity.drawn])
    origin = caption(points) if caption else of_points(points, over)
    upright_px = _upright_px(panels)
    figure = dressed(
        figure,
        title=title,
        caption="<br>".join(filter(None, [origin, left_out, key, note])),
        height=FRAME_PX + HEADING_PX * panels.divided + height + upright_px,
        tell=in_words(points, panels, quantity, title),
        table=points[[name for name in shown if name in points]],
    )
    for words in figure.select_annotations({"name": "caption"}):
        words.yshift -= upright_px
    return figure.update_layout(
        margin_b=figure.layout.margin.b + upright_px,
        margin_t=TITLE_PX + LEGEND_PX * (len(panels.lines) > 1),
        margin_r=MARGIN_PX if panels.layout.rows is None else ROWS_PX,
    )


def _title(column: str, over: Sequence[str]) -> str:
    return f"{heading(column).partition(' (')[0]} by {names_in_words(over or [CONDITION])}"


def _key(panels: Panels) -> str:
    if panels.numeric:
        return "markers: measured; lines: predicted"
    return f"{'markers' if panels.log_y else 'bars'}: measured; black lines: predicted"


def _drawn(table: DataFrame, panels: Panels, quantity: Quantity, units: Units) -> Figure:
    across, down = len(panels.columns), len(panels.rows)
    figure = make_subplots(
        rows=down,
        cols=across,
        shared_xaxes="all",
        shared_yaxes="all",
        horizontal_spacing=0.12 / across,
        vertical_spacing=0.12 / down,
    )
    seen: set[str] = set()
    draw = _line if panels.numeric else _bars
    for row_at, row in enumerate(panels.rows):
        for column_at, column in enumerate(panels.columns):
            for place, line in enumerate(panels.lines):
                rows = panels.of(table, line, column, row)
                name = _line_name(panels, line, units)
                for trace in () if rows.empty else draw(rows, panels, place, name, quantity):
                    first = trace.name == name and name not in seen
                    seen |= {name} if first else set()
                    trace.update(showlegend=first)
                    figure.add_trace(trace, row=row_at + 1, col=column_at + 1)
    _set_axes(figure, panels, quantity, units)
    _add_headings(figure, panels, units)
    return figure.update_layout(
        barmode="overlay",
        legend={**LEGEND_ABOVE, "tracegroupgap": 0},
        showlegend=len(panels.lines) > 1,
    )


def _line_name(panels: Panels, line: Any, units: Units) -> str:
    """The condition, or the value of a parameter with its unit."""
    name = panels.layout.line
    if name is None:
        return "measured"
    if name == CONDITION:
        return str(line)
    unit = _label(name, units).partition(" (")[2].removesuffix(")")
    return f"{names_in_words([name])} {plain(line)} {unit}".strip()


def _line(
    rows: DataFrame, panels: Panels, place: int, name: str, quantity: Quantity
) -> list[Scatter]:
    """The measured values as markers and the predictions as a line; in a chart without predictions,
    the line connects the measured values."""
    line = {"color": COLOURS[place], "width": 1.5, "dash": DASHES[place]}
    measured = _mark(rows[panels.layout.x].tolist(), rows, panels, place, name, quantity)
    if quantity.predicted is None:
        return [measured.update(mode="lines+markers", line=line)]
    if rows[quantity.predicted].isna().all():  # a line would be mistaken for a prediction
        return [measured]
    predicted = Scatter(
        x=measured.x,
        y=rows[quantity.predicted].astype(float).tolist(),
        mode="lines",
        name="predicted",
        legendgroup=name,
        line=line,
        hovertemplate=f"predicted, {name}, %{{x}}: %{{y:.4g}} {quantity.unit}<extra></extra>",
    )
    return [predicted, measured]


def _mark(
    xs: Sequence[float], rows: DataFrame, panels: Panels, place: int, name: str, quantity: Quantity
) -> Scatter:
    smaller = 2 if len(panels.lines) <= FEW else 1
    size = MARK_PX + smaller * (len(panels.lines) - 1 - place)
    return Scatter(
        x=list(xs),
        y=rows[quantity.column].astype(float).tolist(),
        mode="markers",
        name=name,
        legendgroup=name,
        cliponaxis=False,
        marker={"color": COLOURS[place], "size": size, "symbol": SYMBOLS[place]},
        hovertemplate=f"{name}, %{{x}}: %{{y:.4g}} {quantity.unit}<extra></extra>",
    )


def _bars(
    rows: DataFrame, panels: Panels, place: int, name: str, quantity: Quantity
) -> list[Bar | Scatter]:
    """The measured values as bars, or as markers on a logarithmic axis, which has no zero; the
    predictions as black lines."""
    width = BARS / max(2, len(panels.lines))
    offset = width * (place - (len(panels.lines) - 1) / 2)
    xs = [panels.xs.index(value) + offset for value in rows[panels.layout.x]]
    measured: Bar | Scatter = _mark(xs, rows, panels, place, name, quantity)
    hover = f"{name}: %{{y:.4g}} {quantity.unit}<extra></extra>"
    if panels.log_y:
        measured.update(hovertemplate=hover)
    else:
        measured = Bar(
            x=xs,
            y=measured.y,
            width=0.9 * width,
            name=name,
            legendgroup=name,
            marker={"color": COLOURS[place]},
            hovertemplate=hover,
        )
    if quantity.predicted is None:
        return [measured]
    ends: list[float | None] = []
    values: list[float | None] = []
    for at, value in zip(xs, rows[quantity.predicted].astype(float), strict=True):
        if value == value:
            ends += [at - 0.45 * width, at + 0.45 * width, None]
            values += [value, value, None]
    predicted = Scatter(
        x=ends,
        y=values,
        mode="lines",
        name="predicted",
        line={"color": BLACK, "width": 2},
        hovertemplate=f"predicted, {name}: %{{y:.4g}} {quantity.unit}<extra></extra>",
    )
    return [measured, predicted]


def _set_axes(figure: Figure, panels: Panels, quantity: Quantity, units: Units) -> None:
    """Set the types and ticks of the axes, one title per direction, and space for the headings of
    the panels."""
    down, across = len(panels.rows), len(panels.columns)
    x_title, y_title = _label(panels.layout.x, units), heading(quantity.column, quantity.unit)
    if panels.numeric:
        figure.update_xaxes(**_numeric_axis(panels.xs, panels.log_x, few=across > FEW))
    else:
        figure.update_xaxes(
            tickvals=list(range(len(panels.xs))),
            ticktext=[plain(value) for value in panels.xs],
            tickangle=-90 if _upright_px(panels) else 0,
            showgrid=False,
            range=[-0.55, len(panels.xs) - 0.45],
        )
    figure.update_yaxes(**_vertical_axis(figure, panels.log_y))
    x_title = log_title(x_title) if panels.log_x else x_title
    y_title = log_title(y_title) if panels.log_y else y_title
    if not panels.divided:
        figure.update_xaxes(title=x_title).update_yaxes(title=y_title)
        return
    for place in range(1, across if across > FEW else 0, 2):  # no room for labels side by side
        figure.update_xaxes(showticklabels=False, row=down, col=place + 1)
    plot_px = PANEL_PX * down if down > 1 else ONE_PANEL_PX
    top = plot_px / (plot_px + HEADING_PX)
    for axis in figure.select_yaxes():
        axis.domain = [top * end for end in axis.domain]
    on_paper = {"xref": "paper", "yref": "paper", "showarrow": False}
    below = {"x": 0.5, "y": 0, "yanchor": "top", "yshift": -BELOW_PX - _upright_px(panels) + 12}
    beside = {"x": 0, "y": top / 2, "xanchor": "right", "xshift": -BESIDE_PX, "textangle": -90}
    figure.add_annotation(text=x_title, **below, **on_paper)
    figure.add_annotation(text=y_title, **beside, yanchor="middle", **on_paper)


def _upright_px(panels: Panels) -> int:
    """The height of vertical labels on the x axis; 0 if horizontal labels fit on a phone."""
    if panels.numeric:
        return 0
    longest = max(len(plain(value)) for value in panels.xs)
    fits = (longest + 1) * LETTER_PX * len(panels.xs) * len(panels.columns) <= PHONE_PX
    return 0 if fits else (longest - 1) * LETTER_PX


def _numeric_axis(xs: Sequence[float], logarithmic: bool, *, few: bool) -> dict[str, Any]:
    """An axis whose ticks are the values of the parameter, if there is room for them."""
    ticks = list(xs) if len(xs) <= MOST_TICKS else log_ticks(min(xs), max(xs)) * logarithmic
    ticks = [min(xs), max(xs)] if few else ticks
    shown = {"tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]} if ticks else {}
    if logarithmic:
        return {"type": "log", **shown}
    margin = 0.08 * ((max(xs) - min(xs)) or 1)
    return {**shown, "range": [min(xs) - margin, max(xs) + margin]}


def _vertical_axis(figure: Figure, logarithmic: bool) -> dict[str, Any]:
    """An axis that includes all drawn values; it is logarithmic or begins at 0."""
    drawn = [y for trace in figure.data for y in trace.y if y is not None and y == y]
    low, high = min(drawn), max(drawn)
    if not logarithmic:
        return {"nticks": 6, **({} if low < 0 else {"range": [0, 1.08 * (high or 1)]})}
    ticks = log_ticks(low, high)
    ticks = [tick for tick in ticks if log10(tick) % 1 == 0] if len(ticks) > MOST_POWERS else ticks
    margin = 0.06 * log10(high / low)
    return {
        "type": "log",
        "tickvals": ticks,
        "ticktext": [f"{tick:g}" for tick in ticks],
        "range": [log10(low) - margin, log10(high) + margin],
    }


def _add_headings(figure: Figure, panels: Panels, units: Units) -> None:
    """Add the names of the panels, and their values above the columns and right of the rows."""
    columns, rows = panels.layout.columns, panels.layout.rows
    if not panels.divided:
        return
    phrases = [f"columns: {_label(columns, units)}"] if columns else []
    phrases += [f"rows: {_label(rows, units)}"] if rows else []
    heads = {"showarrow": False, "font": {"size": 12}}
    on_paper = {"x": 0, "y": 1, "xref": "paper", "yref": "paper"}
    figure.add_annotation(
        text="; ".join(phrases), **on_paper, xanchor="left", yanchor="top", yshift=2, **heads
    )
    for place, value in enumerate(panels.columns if columns else ()):
        above = {"x": 0.5, "y": 1, "yanchor": "bottom", "yshift": 2}
        _add_value(figure, value, {**above, **heads}, 1, place + 1)
    for place, value in enumerate(panels.rows if rows else ()):
        beside = {"x": 1, "y": 0.5, "xanchor": "left", "xshift": 4, "textangle": 90}
        _add_value(figure, value, {**beside, **heads}, place + 1, len(panels.columns))


def _add_value(figure: Figure, value: Any, where: Mapping[str, Any], row: int, col: int) -> None:
    figure.add_annotation(
        text=f"<b>{plain(value)}</b>", xref="x domain", yref="y domain", **where, row=row, col=col
    )


def _label(name: str | None, units: Units) -> str:
    return heading(name or "", units.get(name or "", ""))
