"""Kernels side by side: a few conditions, and the sweep."""

from __future__ import annotations

from math import log10
from typing import TYPE_CHECKING

import pandas
from plotly.graph_objects import Bar, Figure, Scatter
from plotly.subplots import make_subplots

from labs.experiments.buffers.conditions import BOTH_RAISED, DEFAULT, SENDER_RAISED
from labs.experiments.buffers.sweep import curve, points, remarks, smallest
from labs.read.display.format import in_three_digits, size_in_words
from labs.read.display.provenance import of_table
from labs.read.figures.axes import powers_of_two
from labs.read.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    LEGEND_ABOVE,
    NO_RUNS,
    ORANGE,
    PURPLE,
    VEIL,
    dressed,
    log_title,
    nothing,
)
from labs.read.readings.bulk_transfer import SYSCTL
from labs.read.theory.windows import series

if TYPE_CHECKING:
    from pandas import DataFrame

TITLE = "The same conditions on several kernels"
SHOWN = (DEFAULT, SENDER_RAISED, BOTH_RAISED)
COLOURS = (BLUE, ORANGE, PURPLE, GREEN)
TOP, BOTTOM = 1, 2
BARS = 0.76
"""The width of all bars of a condition together, at most."""


def kernels(*tables: DataFrame) -> Figure:
    """Steady goodput on several kernels: three conditions above, the sweep, if any, below.

    Each table is `study.results()` of one kernel. Predictions are short lines on the bars and
    curves through the points; dashed lines mark the smallest buffer that fills the link.
    `labs.experiments.buffers.narrative.tell_kernels` says why the kernels differ.
    """
    with_runs = [table for table in tables if not table.empty]
    if not with_runs:
        return nothing(TITLE, NO_RUNS)
    every = pandas.concat(with_runs)
    rows = every[every["condition"].isin(SHOWN) & every["steady_mib_s"].notna()]
    swept = points(every)
    swept = swept[swept["series"] == SYSCTL]
    if rows.empty and swept.empty:
        return nothing(TITLE, f"no table has {', '.join(SHOWN)} or a sweep")
    only_bars = {"rows": 1}
    with_sweep = {"rows": 2, "row_heights": [0.4, 0.6], "vertical_spacing": 0.14}
    figure = make_subplots(cols=1, **(only_bars if swept.empty else with_sweep))
    names = sorted(every["kernel"].astype(str).unique(), key=series)
    width = BARS / max(2, len(names))
    for place, kernel in enumerate(names):
        colour = COLOURS[place % len(COLOURS)]
        _bars(
            figure,
            rows[rows["kernel"] == kernel],
            kernel,
            width * (place - (len(names) - 1) / 2),
            width,
            colour,
            legend=place == len(names) - 1,
        )
        _points(figure, swept[swept["kernel"] == kernel], kernel, colour, place)
    _lay_out(figure, swept)
    shown = pandas.concat([rows, swept])
    dashed = "" if swept.empty else "<br>dashed: smallest buffer that fills the line"
    return dressed(
        figure,
        title=TITLE,
        caption=f"{of_table(shown)}{dashed}",
        height=400 if swept.empty else 760,
        tell=_tell(rows, swept),
        table=shown[["condition", "kernel", "steady_mib_s", "predicted_mib_s"]].sort_values(
            ["condition", "kernel"]
        ),
    )


def _tell(rows: DataFrame, swept: DataFrame) -> str:
    """The text alternative: each condition on each kernel, and what the sweeps show."""
    said = [
        f"{row['condition']} on Linux {row['kernel']}: {in_three_digits(row['steady_mib_s'])}"
        for row in rows.to_dict("records")
    ]
    return f"Steady goodput in MiB/s. {'; '.join(said)}. {' '.join(remarks(swept))}"


def _bars(
    figure: Figure,
    rows: DataFrame,
    kernel: str,
    offset: float,
    width: float,
    colour: str,
    *,
    legend: bool,
) -> None:
    places = [SHOWN.index(name) + offset for name in rows["condition"]]
    speeds = rows["steady_mib_s"].astype(float).tolist()
    figure.add_trace(
        Bar(
            x=places,
            y=speeds,
            width=0.9 * width,
            name=f"Linux {kernel}",
            legendgroup=kernel,
            marker={"color": colour},
            text=[in_three_digits(speed) for speed in speeds],
            textposition="outside",
            cliponaxis=False,
            hovertemplate="%{y:.1f} MiB/s<extra></extra>",
        ),
        row=TOP,
        col=1,
    )
    xs: list[float | None] = []
    ys: list[float | None] = []
    for place, value in zip(places, rows["predicted_mib_s"].astype(float), strict=True):
        if value == value:
            xs += [place - 0.45 * width, place + 0.45 * width, None]
            ys += [value, value, None]
    figure.add_trace(
        Scatter(
            x=xs,
            y=ys,
            mode="lines",
            name="predicted",
            legendgroup="predicted",
            showlegend=legend,
            line={"color": BLACK, "width": 2},
            hovertemplate="predicted %{y:.1f} MiB/s<extra></extra>",
        ),
        row=TOP,
        col=1,
    )


def _points(figure: Figure, rows: DataFrame, kernel: str, colour: str, place: int) -> None:
    if rows.empty:
        return
    sizes, speeds = curve(rows)
    figure.add_trace(
        Scatter(
            x=sizes,
            y=speeds,
            mode="lines",
            name=f"predicted, {kernel}",
            showlegend=False,
            legendgroup=kernel,
            line={"color": colour, "width": 1.5},
            hoverinfo="skip",
        ),
        row=BOTTOM,
        col=1,
    )
    texts = [
        f"Linux {kernel}, {size_in_words(row['buffer_bytes'])}: "
        f"{in_three_digits(row['steady_mib_s'])} MiB/s"
        for row in rows.to_dict("records")
    ]
    figure.add_trace(
        Scatter(
            x=rows["buffer_bytes"].tolist(),
            y=rows["steady_mib_s"].astype(float).tolist(),
            mode="markers",
            name=f"sweep, {kernel}",
            showlegend=False,
            legendgroup=kernel,
            cliponaxis=False,
            marker={"color": colour, "size": 8},
            text=texts,
            hovertemplate="%{text}<extra></extra>",
        ),
        row=BOTTOM,
        col=1,
    )
    for found in smallest(rows):
        if found.buffer_bytes is not None:
            figure.add_vline(
                x=found.buffer_bytes,
                row=BOTTOM,
                col=1,
                line={"color": colour, "dash": "dash", "width": 1.5},
            )
            figure.add_annotation(
                x=log10(found.buffer_bytes),
                y=0.06 + 0.1 * place,
                yref="y domain",
                text=f"{short(kernel)}: {size_in_words(found.buffer_bytes)}",
                showarrow=False,
                xanchor="right",
                xshift=-5,
                bgcolor=VEIL,
                row=BOTTOM,
                col=1,
            )


def short(kernel: str) -> str:
    """The series of a kernel: 6.12 for 6.12.117."""
    return ".".join(kernel.split(".")[:2])


def _lay_out(figure: Figure, swept: DataFrame) -> None:
    figure.update_xaxes(
        tickvals=list(range(len(SHOWN))),
        ticktext=list(SHOWN),
        showgrid=False,
        range=[-0.55, len(SHOWN) - 0.45],
        row=TOP,
        col=1,
    )
    figure.update_yaxes(title="steady goodput, MiB/s", rangemode="tozero")
    figure.update_layout(legend=LEGEND_ABOVE)
    if swept.empty:
        return
    sizes = powers_of_two(
        float(swept["buffer_bytes"].min()), float(swept["buffer_bytes"].max()), most=6
    )
    figure.update_xaxes(
        type="log",
        tickvals=sizes,
        ticktext=[size_in_words(size) for size in sizes],
        title=log_title("size of both buffers"),
        row=BOTTOM,
        col=1,
    )
