"""The chart of the model's errors: one panel per figure, one mark per point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import copysign, log10
from typing import TYPE_CHECKING

import pandas
from plotly.graph_objects import Box, Scatter
from plotly.subplots import make_subplots

from benchmarks.model_errors import Compared
from labs.guest.units import MB
from labs.read.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
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
    from plotly.graph_objects import Figure

TITLE = "Error of the predicted transfer"
COLOURS = (BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, BLACK, GREY)
SIGNS = ("circle", "diamond", "square", "triangle-up", "x", "cross", "star", "triangle-down")
PANELS = {"Steady goodput": "steady_error_pct", "Time for all bytes": "time_error_pct"}
HEIGHT_PX = 640
LINEAR_PCT = 1.0
"""Errors are drawn to scale up to here, and beyond by their logarithm."""


def errors(compared: Sequence[Compared], set_name: str, goal_worst_pct: float) -> Figure:
    """The errors of all predicted points against their measured steady goodput.

    Colour and sign are the bound. The vertical axis is linear up to 1 % and logarithmic beyond.
    """
    predicted = [result for result in compared if result.error_pct is not None]
    if not predicted:
        return nothing(TITLE, "no point has both a measurement and a prediction")
    figure = make_subplots(
        rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.09, subplot_titles=list(PANELS)
    )
    bounds = sorted({result.bound for result in predicted})
    for row, column in enumerate(PANELS.values(), start=1):
        for place, bound in enumerate(bounds):
            some = [result for result in predicted if result.bound == bound]
            figure.add_trace(
                Scatter(
                    x=[(result.measured_steady_bytes_s or 0) / MB for result in some],
                    y=[bent(getattr(result, column)) for result in some],
                    mode="markers",
                    name=bound,
                    legendgroup=bound,
                    showlegend=row == 1,
                    marker={"color": COLOURS[place], "symbol": SIGNS[place], "size": 7},
                    text=[describe_point(result, getattr(result, column)) for result in some],
                    hoverinfo="text",
                ),
                row=row,
                col=1,
            )
        for edge in (-goal_worst_pct, goal_worst_pct):
            figure.add_hline(y=bent(edge), line={"color": GREY, "dash": "dot"}, row=row, col=1)
    return laid_out(figure, predicted, len(compared), set_name, goal_worst_pct)


def bent(error_pct: float) -> float:
    """An error on the vertical axis."""
    size = abs(error_pct)
    return copysign(size if size <= LINEAR_PCT else LINEAR_PCT + log10(size), error_pct)


def describe_point(result: Compared, error_pct: float) -> str:
    """What a mark says of its point."""
    point = result.point
    return (
        f"{point.name}: {error_pct:+.2f} %<br>{point.rate_mbit:g} Mbit/s, {point.rtt_ms:g} ms, "
        f"Linux {point.kernel}, MSS {point.mss_bytes}<br>sndbuf {2 * point.sndbuf_kib} KiB, rcvbuf "
        f"{2 * point.rcvbuf_kib} KiB (0: automatic), writes of {point.write_bytes} bytes"
    )


def laid_out(
    figure: Figure, predicted: Sequence[Compared], points: int, set_name: str, goal_worst_pct: float
) -> Figure:
    """Axes, caption and the table behind the figure."""
    steady = [(result.measured_steady_bytes_s or 0) / MB for result in predicted]
    ticks = log_ticks(min(steady), max(steady))
    marks = [-100.0, -10.0, -goal_worst_pct, -1.0, 0.0, 1.0, goal_worst_pct, 10.0, 100.0]
    largest = max(result.error_pct or 0 for result in predicted)
    marks = [mark for mark in marks if abs(mark) <= max(10.0, 2 * largest)]
    figure.update_xaxes(type="log", tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks])
    figure.update_xaxes(title_text=log_title("Measured steady goodput (MB/s)"), row=2, col=1)
    figure.update_yaxes(
        tickvals=[bent(mark) for mark in marks],
        ticktext=[f"{mark:+g} %" if mark else "0" for mark in marks],
    )
    table = pandas.DataFrame(
        {
            "point": [result.point.name for result in predicted],
            "kernel": [result.point.kernel for result in predicted],
            "bound": [result.bound for result in predicted],
            "steady_error_pct": [result.steady_error_pct for result in predicted],
            "time_error_pct": [result.time_error_pct for result in predicted],
        }
    )
    dressed(
        figure,
        title=TITLE,
        caption=(
            f"set {set_name}: {len(predicted)} of {points} points predicted; dotted: the goal, "
            f"{goal_worst_pct:g} %. The vertical axis is linear up to 1 %, logarithmic beyond"
        ),
        height=HEIGHT_PX,
        tell=f"The error of {len(predicted)} predicted transfers, by what limits them.",
        table=table,
    )
    return figure.update_layout(legend={"orientation": "h", "y": 1.14, "x": 0}, margin_t=140)


@dataclass(frozen=True)
class Error:
    """The larger error of one stored point, in percent, and the groups that it belongs to."""

    error_pct: float
    kernel: str
    limit: str
    writer: str


LEAST_PCT = 0.001
"""Smaller errors are drawn at this value: the axis is logarithmic."""
GROUPS = {"Kernel": "kernel", "Limit": "limit", "Writer": "writer"}


def spread(errors: Sequence[Error], goal_95_pct: float, goal_worst_pct: float) -> Figure:
    """The errors per kernel, per limit and per writer: every point, and the median as a bar."""
    figure = make_subplots(
        cols=3, shared_yaxes=True, subplot_titles=list(GROUPS), column_widths=[4, 6, 3]
    )
    for col, column in enumerate(GROUPS.values(), start=1):
        names = sorted({str(getattr(error, column)) for error in errors})
        for name in names:
            values = [
                max(error.error_pct, LEAST_PCT)
                for error in errors
                if getattr(error, column) == name
            ]
            figure.add_trace(
                Box(
                    y=values,
                    name=f"{name} ({len(values)})".replace(" ", "<br>"),
                    boxpoints="all",
                    jitter=0.6,
                    pointpos=0,
                    marker={"color": BLUE, "size": 3, "opacity": 0.5},
                    line={"color": ORANGE, "width": 2},
                    fillcolor="rgba(0,0,0,0)",
                    showlegend=False,
                ),
                row=1,
                col=col,
            )
        for goal in (goal_95_pct, goal_worst_pct):
            figure.add_hline(y=goal, line={"color": GREY, "dash": "dot"}, row=1, col=col)
    marks = [0.001, 0.01, 0.1, 1.0, goal_95_pct, goal_worst_pct, 10.0]
    figure.update_xaxes(tickangle=0, tickfont={"size": 11})
    figure.update_yaxes(type="log", tickvals=marks, ticktext=[f"{mark:g}" for mark in marks])
    figure.update_yaxes(title_text="Error of the prediction (%), logarithmic", row=1, col=1)
    return dressed(
        figure,
        title="The model of a bulk transfer: errors at the stored points",
        caption=(
            f"sets a, wget and discard: {len(errors)} points on virtual kernels; boxes: median and "
            f"quartiles; dotted: the goals, 95 % of the points within {goal_95_pct:g} % and none "
            f"above {goal_worst_pct:g} %"
        ),
        height=500,
        tell=f"The errors of {len(errors)} predictions by kernel, limit and writer.",
        table=pandas.DataFrame([asdict(error) for error in errors]),
    )
