"""A heat map: a column of a table over two parameters with many values, in shaded cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from plotly.graph_objects import Figure, Heatmap

from labs.drive.parameters.declare import plain
from labs.errors import BadInput
from labs.read.display.format import heading, in_three_digits
from labs.read.figures.style import BLACK, NO_RUNS, dressed, nothing

if TYPE_CHECKING:
    from pandas import DataFrame

SHADES = ((0.0, "rgba(0,114,178,0.04)"), (1.0, "rgba(0,114,178,0.42)"))
"""Translucent, so that numbers on them are legible in print and on a dark screen."""
MOST_NUMBERED = 8
"""The maximum number of columns of cells whose numbers are legible on a phone."""
LEAST_PX, MOST_PX, ROW_PX, FRAME_PX = 240, 620, 34, 190


def heatmap(
    table: DataFrame,
    column: str,
    x: str,
    y: str,
    *,
    unit: str,
    units: Mapping[str, str] | None = None,
    caption: str = "",
    title: str | None = None,
) -> Figure:
    """A column of a table by the parameters `x` and `y`, whose values are evenly spaced.

    `table` has one row per pair of values. If it has several, BadInput says what to restrict. Cells
    contain numbers if there are few columns; otherwise there is a colour scale.
    """
    title = title or f"{heading(column, unit)} by {_of(x)} and {_of(y)}"
    rows = table[table[column].notna()]
    if rows.empty:
        return nothing(title, NO_RUNS, caption)
    if rows.duplicated([x, y]).any():
        raise BadInput(
            f"several rows have the same {x} and {y}. Restrict the other parameters, as in "
            'heatmap(COLUMN, X, Y, condition="default")'
        )
    xs, ys = (sorted(rows[name].unique().tolist()) for name in (x, y))
    records = rows.to_dict("records")
    cells = {(row[x], row[y]): float(row[column]) for row in records}
    figure = Figure(_shades(cells, xs, ys, heading(column, unit)))
    numbered = len(xs) <= MOST_NUMBERED
    for (at_x, at_y), value in cells.items() if numbered else ():
        figure.add_annotation(
            x=plain(at_x),
            y=plain(at_y),
            text=in_three_digits(value),
            showarrow=False,
            font={"size": 12, "color": BLACK},
        )
    for name, update in ((x, figure.update_xaxes), (y, figure.update_yaxes)):
        update(title=heading(name, (units or {}).get(name, "")), type="category", showgrid=False)
    low, high = (end(records, key=lambda row: float(row[column])) for end in (min, max))
    return dressed(
        figure,
        title=title,
        caption=caption,
        height=FRAME_PX + min(MOST_PX, max(LEAST_PX, ROW_PX * len(ys))),
        tell=f"{title}: from {_place(low, column, x, y)} to {_place(high, column, x, y)}.",
        table=rows[[x, y, column]],
    )


def _shades(
    cells: Mapping[tuple[Any, Any], float], xs: list[Any], ys: list[Any], name: str
) -> Heatmap:
    numbered = len(xs) <= MOST_NUMBERED
    return Heatmap(
        x=[plain(value) for value in xs],
        y=[plain(value) for value in ys],
        z=[[cells.get((at_x, at_y)) for at_x in xs] for at_y in ys],
        colorscale=SHADES if numbered else "Cividis",
        showscale=not numbered,
        colorbar={"thickness": 12, "outlinewidth": 0},
        xgap=2 * numbered,
        ygap=2 * numbered,
        hovertemplate=f"%{{x}}, %{{y}}: %{{z:.4g}}<extra>{name}</extra>",
    )


def _of(name: str) -> str:
    words = heading(name).partition(" (")[0]
    return words[:1].lower() + words[1:] if words[1:].islower() else words


def _place(row: Mapping[Any, Any], column: str, x: str, y: str) -> str:
    value = in_three_digits(float(row[column]))
    return f"{value} at {x} {plain(row[x])}, {y} {plain(row[y])}"
