"""Segments and ACKs of an answer, by how it was written and how fast ACKs came back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plotly.graph_objects import Bar, Figure, Scatter

from labs.read.charts.style import BLUE, SKY, VERMILION, dressed
from labs.read.display.provenance import of_table

if TYPE_CHECKING:
    from pandas import DataFrame

ROW_PX, BAR = 44, 0.34


def segments(table: DataFrame) -> Figure:
    """Segments with payload from the server and ACKs without from the client, an answer; the
    prediction of the former. `table` is `study.results()` or some rows of it."""
    rows = table.reset_index(drop=True)
    places = rows.index.to_list()
    figure = Figure(
        [
            Bar(
                x=rows[column],
                y=[place + offset for place in places],
                width=BAR,
                orientation="h",
                name=name,
                marker={"color": colour},
                text=[f"{value:.3g}" for value in rows[column]],
                textposition="outside",
                cliponaxis=False,
                hovertemplate="%{x:.3f} an answer<extra></extra>",
            )
            for column, name, colour, offset in (
                ("segments_per_answer", "segments of the server", BLUE, -BAR / 2),
                ("acks_per_answer", "ACKs of the client", SKY, BAR / 2),
            )
        ]
    )
    xs: list[float | None] = []
    ys: list[float | None] = []
    for place, value in zip(places, rows["predicted_segments"], strict=True):
        if value == value:
            xs += [float(value), float(value), None]
            ys += [place - BAR, place, None]
    figure.add_trace(
        Scatter(
            x=xs,
            y=ys,
            mode="lines",
            name="predicted segments, but for the first answer",
            line={"color": VERMILION, "width": 3},
            hovertemplate="predicted %{x:g}<extra></extra>",
        )
    )
    most = float(
        rows[["segments_per_answer", "acks_per_answer", "predicted_segments"]]
        .astype(float)
        .max()
        .max()
    )
    figure.update_xaxes(title="per answer", range=[0, 1.12 * most])
    figure.update_yaxes(
        tickvals=places,
        ticktext=list(rows["condition"]),
        range=[len(rows) - 0.5, -0.5],
        showgrid=False,
    )
    figure.update_layout(
        barmode="overlay",
        legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "xanchor": "left"},
    )
    return dressed(
        figure,
        title="Segments and ACKs of an answer",
        caption=of_table(rows),
        height=190 + ROW_PX * len(rows),
    )
