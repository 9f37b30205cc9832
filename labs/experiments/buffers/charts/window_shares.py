"""tcp_adv_win_scale: one receive buffer, and the share of it that becomes window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plotly.graph_objects import Bar, Figure, Scatter
from plotly.subplots import make_subplots

from labs.drive.units import MIB
from labs.experiments.buffers.conditions import SHARE
from labs.read.charts.style import BLUE, GREY, SKY, VERMILION, dressed, nothing
from labs.read.display.format import in_three_digits, size_in_words
from labs.read.display.provenance import of_table
from labs.read.theory.bdp import line_goodput_bytes_s
from labs.read.theory.windows import RATIO_SINCE, series

if TYPE_CHECKING:
    from pandas import DataFrame

TITLE = "What tcp_adv_win_scale makes of one receive buffer"
COLOURS = (BLUE, SKY, GREY)
BAR = 0.62


def adv_win_scale(table: DataFrame) -> Figure:
    """Steady goodput for each value of the setting: a small plot a value, a bar a kernel.

    `table` is `study.results()`, or two of them one below the other for two kernels. Below each
    value stands the share of the buffer that the setting promises as window, or that it is
    ignored (from Linux 6.6 on).
    """
    rows = table[(table["group"] == SHARE.name) & table["steady_mib_s"].notna()]
    if rows.empty:
        return nothing(TITLE, "no run of these sets tcp_adv_win_scale")
    scales = sorted(rows["adv_win_scale"].astype(int).unique().tolist())
    figure = make_subplots(
        rows=1,
        cols=len(scales),
        shared_yaxes=True,
        horizontal_spacing=0.02,
        subplot_titles=[f"<b>{scale}</b>" for scale in scales],
    )
    kernels = list(dict.fromkeys(rows["kernel"]))
    for place, kernel in enumerate(kernels):
        for column, scale in enumerate(scales, start=1):
            _bar(
                figure,
                rows[(rows["kernel"] == kernel) & (rows["adv_win_scale"] == scale)],
                str(kernel),
                place,
                column,
            )
    _predicted(figure, rows, kernels, scales)
    _lay_out(figure, rows, kernels, scales)
    dressed(
        figure,
        title=f"{TITLE}, {size_in_words(float(rows['buffer_bytes'].max()))}",
        caption=of_table(rows),
        height=460,
    )
    # A row more above the plots: their titles stand between them and the legend.
    return figure.update_layout(margin_t=108).update_xaxes(ticks="")


def promised(scale: int) -> str:
    """The share of a buffer that the setting promises as window, as one reads it.

    Source: include/net/tcp.h tcp_win_from_space(), up to Linux 6.5.
    """
    if scale == 0:
        return "all of it"
    return f"1/{2**-scale}" if scale < 0 else f"{2**scale - 1}/{2**scale}"


def _bar(figure: Figure, rows: DataFrame, kernel: str, place: int, column: int) -> None:
    speeds = rows["steady_mib_s"].astype(float).tolist()
    figure.add_trace(
        Bar(
            x=[place] * len(speeds),
            y=speeds,
            width=BAR,
            name=f"Linux {kernel}",
            legendgroup=kernel,
            showlegend=column == 1,
            marker={"color": COLOURS[place % len(COLOURS)]},
            text=[in_three_digits(speed) for speed in speeds],
            textposition="outside",
            cliponaxis=False,
            hovertemplate="%{y:.1f} MiB/s<extra></extra>",
        ),
        row=1,
        col=column,
    )


def _predicted(figure: Figure, rows: DataFrame, kernels: list[str], scales: list[int]) -> None:
    for column, scale in enumerate(scales, start=1):
        xs: list[float | None] = []
        ys: list[float | None] = []
        for row in rows[rows["adv_win_scale"] == scale].to_dict("records"):
            if row["predicted_mib_s"] == row["predicted_mib_s"]:
                place = kernels.index(row["kernel"])
                xs += [place - BAR / 2, place + BAR / 2, None]
                ys += [row["predicted_mib_s"]] * 2 + [None]
        figure.add_trace(
            Scatter(
                x=xs,
                y=ys,
                mode="lines",
                name="predicted",
                legendgroup="predicted",
                showlegend=column == 1,
                line={"color": VERMILION, "width": 3},
                hovertemplate="predicted %{y:.1f} MiB/s<extra></extra>",
            ),
            row=1,
            col=column,
        )


def _lay_out(figure: Figure, rows: DataFrame, kernels: list[str], scales: list[int]) -> None:
    line = line_goodput_bytes_s(float(rows["rate_mbit"].median())) / MIB
    obey = any(series(kernel) < RATIO_SINCE for kernel in kernels)
    for column, scale in enumerate(scales, start=1):
        figure.update_xaxes(
            showticklabels=False,
            range=[-0.6, len(kernels) - 0.4],
            showgrid=False,
            title=promised(scale) if obey else "ignored",
            row=1,
            col=column,
        )
    figure.add_hline(y=line, line={"color": GREY, "dash": "dot", "width": 1.5})
    fastest = float(rows[["steady_mib_s", "predicted_mib_s"]].astype(float).max().max())
    figure.update_yaxes(
        title="goodput in the last third, MiB/s", range=[0, 1.12 * max(line, fastest)], row=1, col=1
    )
    figure.update_layout(
        legend={"orientation": "h", "x": 0, "y": 1.1, "yanchor": "bottom", "xanchor": "left"}
    )
    promise = "the window's share of the buffer, by the setting"
    if any(series(kernel) >= RATIO_SINCE for kernel in kernels):
        promise += " (6.6 and later ignore it)" if obey else ": from 6.6 on it is ignored"
    figure.add_annotation(
        text=promise,
        showarrow=False,
        xref="paper",
        yref="paper",
        x=0.5,
        y=0,
        xanchor="center",
        yanchor="top",
        yshift=-36,
    )
