"""Figures of the lab `queues`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plotly.graph_objects import Bar, Figure, Scatter

from labs.experiments.queues.conditions import AQM, BUFFERS
from labs.read.display.provenance import of_table
from labs.read.figures.flows import goodput, latency_against_throughput, queue, windows
from labs.read.figures.style import (
    BLUE,
    GREY,
    LEGEND_ABOVE,
    ORANGE,
    PURPLE,
    VERMILION,
    dressed,
    log_title,
    nothing,
)

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["goodput", "latency_against_throughput", "queue", "requests", "utilisation", "windows"]

COLOURS = {"reno": PURPLE, "cubic": BLUE, "bbr": VERMILION}


def utilisation(table: DataFrame) -> Figure:
    """The share of the link in use against the size of the FIFO, measured and predicted."""
    title = "Utilisation against the size of a FIFO"
    rows = table[table["group"] == BUFFERS.name].sort_values("buffer_bdp")
    if rows.empty:
        return nothing(title, "none of these runs varies the size of a FIFO")
    figure = Figure()
    for control, own in rows.groupby("controls", sort=False):
        for column, name, line, symbol in (
            ("utilisation_pct", "measured", "solid", "circle"),
            ("predicted_utilisation_pct", "predicted", "dash", "diamond-open"),
        ):
            known = own[own[column].notna()]
            figure.add_trace(
                Scatter(
                    x=known["buffer_bdp"].round(4).tolist(),
                    y=known[column].round(3).tolist(),
                    mode="lines+markers",
                    name=f"{control}, {name}",
                    line={"color": COLOURS.get(str(control), GREY), "dash": line},
                    marker={"symbol": symbol, "size": 9},
                    hovertemplate="%{x:.3g} BDP: %{y:.1f} %<extra>%{fullData.name}</extra>",
                )
            )
    ticks = sorted({round(size, 2) for size in rows["buffer_bdp"]})
    figure.update_xaxes(title=log_title("size of the FIFO (BDP)"), type="log", tickvals=ticks)
    figure.update_yaxes(title="utilisation (%)")
    figure.update_layout(legend=LEGEND_ABOVE)
    heads = {
        "condition": "condition",
        "buffer_bdp": "size, BDP",
        "utilisation_pct": "measured, %",
        "predicted_utilisation_pct": "predicted, %",
    }
    said = ", ".join(
        f"{row['condition']} {row['utilisation_pct']:.3g}" for row in rows.to_dict("records")
    )
    return dressed(
        figure,
        title=title,
        caption=of_table(rows),
        height=460,
        tell=f"Utilisation, in %: {said}.",
        table=rows[list(heads)].rename(columns=heads),
    )


def requests(table: DataFrame) -> Figure:
    """The latency of requests beside one download, per queue: idle, median and 99 %."""
    title = "Latency of requests beside a download"
    rows = table[(table["group"] == AQM.name) & table["request_p50_ms"].notna()]
    if rows.empty:
        return nothing(title, "none of these runs has requests")
    rows = rows.sort_values("request_p50_ms")
    figure = Figure(
        [
            Bar(
                y=rows["condition"].tolist(),
                x=rows[column].round(2).tolist(),
                name=name,
                orientation="h",
                marker={"color": colour},
                hovertemplate="%{y}: %{x:.1f} ms<extra>" + name + "</extra>",
            )
            for column, name, colour in (
                ("request_idle_ms", "idle", GREY),
                ("request_p50_ms", "median", BLUE),
                ("request_p99_ms", "99 %", ORANGE),
            )
        ]
    )
    figure.update_xaxes(title="latency (ms)", rangemode="tozero")
    figure.update_layout(legend=LEGEND_ABOVE, barmode="group")
    heads = {
        "condition": "queue",
        "request_idle_ms": "idle, ms",
        "request_p50_ms": "median, ms",
        "request_p99_ms": "99 %, ms",
        "request_ratio": "median / idle",
    }
    said = ", ".join(
        f"{row['condition']} {row['request_ratio']:.3g}" for row in rows.to_dict("records")
    )
    return dressed(
        figure,
        title=title,
        caption=of_table(rows),
        height=160 + 60 * len(rows),
        tell=f"Median latency as a multiple of the idle one: {said}.",
        table=rows[list(heads)].rename(columns=heads),
    )
