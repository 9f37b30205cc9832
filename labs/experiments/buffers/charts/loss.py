"""Loss and congestion control: the median of several draws, and how far they lie apart."""

from __future__ import annotations

from math import log10
from typing import TYPE_CHECKING

from plotly.graph_objects import Figure, Scatter

from labs.drive.units import MIB
from labs.experiments.buffers.conditions import LOSS
from labs.read.charts.style import (
    BLACK,
    BLUE,
    GREY,
    ORANGE,
    PURPLE,
    VERMILION,
    dressed,
    log_ticks,
    nothing,
)
from labs.read.display.format import in_three_digits
from labs.read.display.provenance import of_table
from labs.read.theory.bdp import line_goodput_bytes_s

if TYPE_CHECKING:
    from pandas import DataFrame

TITLE = "Loss and congestion control"
COLOURS = {"reno": PURPLE, "cubic": BLUE, "bbr": VERMILION}
APART = 0.22
NEAR = 0.7


def loss(table: DataFrame) -> Figure:
    """Goodput for each congestion control at each loss: median and range, on a scale of tens.

    `table` is `study.results()`. Every draw (a run with a seed of its own) is a faint dot. Below
    a loss that was asked for stands what netem dropped, over all draws.
    """
    rows = table[(table["group"] == LOSS.name) & table["goodput_mib_s"].notna()]
    if rows.empty:
        return nothing(
            TITLE,
            "no run of these has the conditions of the loss series; they belong to the size “full”",
        )
    losses = sorted(rows["loss_pct"].astype(float).unique().tolist())
    controls = [name for name in COLOURS if name in set(rows["congestion_control"])]
    controls += sorted(set(rows["congestion_control"]) - set(controls))
    line = line_goodput_bytes_s(float(rows["rate_mbit"].median())) / MIB
    figure = Figure()
    for place, control in enumerate(controls):
        offset = (place - (len(controls) - 1) / 2) * APART
        _of_control(
            figure, rows[rows["congestion_control"] == control], control, losses, offset, line
        )
    figure.add_hline(y=line, line={"color": GREY, "dash": "dot", "width": 1.5})
    figure.add_annotation(
        text=f"the line's rate, {in_three_digits(line)} MiB/s",
        showarrow=False,
        x=0.995,
        xref="paper",
        y=log10(line),
        xanchor="right",
        yanchor="bottom",
        font={"color": GREY},
    )
    figure.update_xaxes(
        tickvals=list(range(len(losses))),
        showgrid=False,
        ticktext=[_words(rows, asked) for asked in losses],
        range=[-0.5, len(losses) - 0.5],
    )
    speeds = rows["goodput_mib_s"].astype(float)
    reach = min(line, float(speeds.min())) / 2, 1.5 * max(line, float(speeds.max()))
    ticks = log_ticks(*reach)
    figure.update_yaxes(
        type="log",
        title="goodput, MiB/s",
        range=[log10(end) for end in reach],
        tickvals=ticks,
        ticktext=[f"{tick:g}" for tick in ticks],
    )
    figure.update_layout(
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "xanchor": "left"}
    )
    draws = int(rows.groupby(["loss_pct", "congestion_control"]).size().max())
    return dressed(
        figure,
        title=f"{TITLE}: median and range of {draws} draws",
        caption=of_table(rows),
        height=480,
    )


def _of_control(
    figure: Figure, rows: DataFrame, control: str, losses: list[float], offset: float, line: float
) -> None:
    colour = COLOURS.get(control, ORANGE)
    groups = [
        rows.loc[rows["loss_pct"] == asked, "goodput_mib_s"].astype(float) for asked in losses
    ]
    figure.add_trace(
        Scatter(
            x=[place + offset for place, group in enumerate(groups) for _ in group],
            y=[speed for group in groups for speed in group],
            mode="markers",
            showlegend=False,
            marker={"color": colour, "size": 6, "opacity": 0.35},
            hoverinfo="skip",
        )
    )
    known = [(place + offset, group) for place, group in enumerate(groups) if len(group)]
    middle = [float(group.median()) for _, group in known]
    figure.add_trace(
        Scatter(
            x=[x for x, _ in known],
            y=middle,
            mode="markers+text",
            name=control,
            marker={"color": colour, "size": 11, "symbol": "diamond"},
            text=[f"<b>{in_three_digits(value)}</b>" for value in middle],
            # Beside its range; below the line's rate, where there is next to none.
            textposition=[
                "bottom center" if value > NEAR * line else "middle right" for value in middle
            ],
            textfont={"color": BLACK},
            error_y={
                "type": "data",
                "symmetric": False,
                "thickness": 2,
                "width": 7,
                "array": [
                    float(group.max()) - value
                    for (_, group), value in zip(known, middle, strict=True)
                ],
                "arrayminus": [
                    value - float(group.min())
                    for (_, group), value in zip(known, middle, strict=True)
                ],
            },
            customdata=[[float(group.min()), float(group.max())] for _, group in known],
            hovertemplate=f"{control}: %{{y:.3g}} MiB/s (%{{customdata[0]:.3g}} to "
            "%{customdata[1]:.3g})<extra></extra>",
        )
    )


def _words(rows: DataFrame, asked: float) -> str:
    """A loss that was asked for, and what was measured of it."""
    if not asked:
        return "no loss"
    lost = rows.loc[rows["loss_pct"] == asked, "lost_pct"].astype(float)
    return (
        f"{asked:g} % loss<br><span style='font-size:11px'>dropped: {lost.min():.2g} to "
        f"{lost.max():.2g} %</span>"
    )
