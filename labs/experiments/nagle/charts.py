"""Figures of the lab `nagle`, each from a table of results, a study, a run or a capture."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pandas
from plotly.graph_objects import Bar, Figure, Scatter
from plotly.subplots import make_subplots

from labs.experiments.nagle.requests import packets_of, requests_of, table_of, typical
from labs.read.charts import ladder as drawn
from labs.read.charts.ecdf import latency, time_to_ack
from labs.read.charts.ladder import MOST_PACKETS
from labs.read.charts.style import BLUE, ORANGE, SKY, VERMILION, dressed, nothing, where_from
from labs.read.display.format import milliseconds
from labs.read.display.provenance import of_table
from labs.read.flows.rtt import time_to_ack as waited
from labs.read.readings.latency import SMALLEST_MS
from labs.read.runs.run import Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pandas import DataFrame, Series

    from labs.read.charts.style import Source
    from labs.read.lab import Study

__all__ = [
    "acks",
    "by_condition",
    "distribution",
    "ladder",
    "ladder_of_request",
    "matrix",
    "segments",
]

BAR, ROW_PX = 0.55, 34
PAIR_BAR, SEGMENTS_ROW_PX = 0.34, 44
ROOM = 1.75
"""How far the axis goes beyond the longest bar: the figures are written behind the bars."""
MATRIX = {
    "off": ("Nagle, delayed ACK", 1, 1),
    "quickack": ("Nagle, quick ACK", 1, 2),
    "on": ("no Nagle, delayed ACK", 2, 1),
    "on-quickack": ("no Nagle, quick ACK", 2, 2),
}
MOST_STEPS = 60
STALL_MS = {"40 ms": 40.0}
AFTER_DELAY = " · the server's packets are captured after the delay"
"""Source: net/core/dev.c dev_hard_start_xmit(): a capture sees a packet when the queue lets it go.
"""


def by_condition(table: DataFrame) -> Figure:
    """The mean time of a request under each condition: measured, predicted, published.

    `table` is `study.results()` or some rows of it. On virtual time, what is shorter than 1 ms has
    no bar: nothing is measured there.
    """
    rows = table.reset_index(drop=True)
    places = rows.index.to_list()
    edge = float(rows[["mean_ms", "predicted_mean_ms", "article_ms"]].astype(float).max().max())
    figure = Figure(
        Bar(
            x=[_drawn(row) for row in rows.to_dict("records")],
            y=places,
            width=BAR,
            orientation="h",
            name="measured, mean",
            marker={"color": BLUE},
            customdata=rows[["p50_ms", "p99_ms"]],
            hovertemplate="%{x:.2f} ms; half within %{customdata[0]:.1f}, 99 % within "
            "%{customdata[1]:.1f} ms<extra></extra>",
        )
    )
    _predictions(figure, rows)
    _published(figure, rows)
    for place, row in zip(places, rows.to_dict("records"), strict=True):
        figure.add_annotation(
            x=_reach(row),
            y=place,
            text=_label(row),
            showarrow=False,
            xanchor="left",
            xshift=9,
            font={"size": 12},
        )
    figure.update_xaxes(title="time per request, ms", range=[0, edge * ROOM])
    figure.update_yaxes(
        tickvals=places,
        ticktext=list(rows["condition"]),
        range=[len(rows) - 0.5, -0.5],
        showgrid=False,
    )
    figure.update_layout(
        legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "xanchor": "left"},
        showlegend=True,
    )
    return dressed(
        figure,
        title="Time per request by condition",
        caption=of_table(rows),
        height=190 + ROW_PX * len(rows),
    )


def _drawn(row: dict[Any, Any]) -> float:
    virtual = row["testbed"] == "virtual"
    return 0.0 if virtual and row["mean_ms"] < SMALLEST_MS else float(row["mean_ms"])


def _reach(row: dict[Any, Any]) -> float:
    """The end of all that is drawn of a row."""
    others = [row["predicted_mean_ms"], row["article_ms"]]
    return max([_drawn(row), *(float(value) for value in others if pandas.notna(value))])


def _label(row: dict[Any, Any]) -> str:
    beside = [
        f"{name} {milliseconds(value, SMALLEST_MS)}"
        for name, value in (("predicted", row["predicted_mean_ms"]), ("article", row["article_ms"]))
        if pandas.notna(value)
    ]
    said = f"<b>{milliseconds(row['mean_ms'], SMALLEST_MS)}</b>" + (
        f"  ({', '.join(beside)})" if beside else ""
    )
    return said + (f", {row['stalled_pct']:.3g} % stall" if row["stalled_pct"] else "")


def _predictions(figure: Figure, rows: DataFrame) -> None:
    """Lines across the bars."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    for place, value in enumerate(rows["predicted_mean_ms"]):
        if pandas.notna(value) and value >= SMALLEST_MS:
            xs += [float(value), float(value), None]
            ys += [place - BAR / 2 - 0.1, place + BAR / 2 + 0.1, None]
    if xs:
        figure.add_trace(
            Scatter(
                x=xs,
                y=ys,
                mode="lines",
                name="predicted",
                line={"color": VERMILION, "width": 3},
                hovertemplate="predicted %{x:.2f} ms<extra></extra>",
            )
        )


def _published(figure: Figure, rows: DataFrame) -> None:
    known = rows[rows["article_ms"].notna()]
    if len(known):
        figure.add_trace(
            Scatter(
                x=known["article_ms"],
                y=known.index,
                mode="markers",
                name="the article",
                text=known["article_claim"],
                marker={"size": 11, "color": ORANGE, "line": {"color": "black", "width": 1}},
                hovertemplate="%{text}: %{x:g} ms<extra></extra>",
            )
        )


def matrix(study: Study) -> Figure:
    """Nagle's algorithm and the delayed ACK, each there and not: how long requests took.

    A cell is the share of the requests by their time, with the predicted time of all but the first
    request of a connection. All cells have one axis, from 0 to the longest time, in at most 60
    steps. Times are those of the capture at the server; what was not answered has none, and is
    counted above the cell.
    """
    title = "Nagle's algorithm and the delayed ACK, each there and not"
    table = study.results()
    rows = table[table["condition"].isin(MATRIX)]
    if len(rows) < len(MATRIX):
        return nothing(title, "needs the conditions " + ", ".join(MATRIX))
    cells = {str(row["condition"]): row for row in rows.to_dict("records")}
    times = {name: requests_of(study.run(name))["latency_ms"] for name in MATRIX}
    drawn = pandas.concat([*times.values(), rows["predicted_p50_ms"].astype(float)])
    shortest, longest = min(0.0, float(drawn.min())), float(drawn.max())
    step_ms = _step_ms(longest)
    figure = make_subplots(
        rows=2,
        cols=2,
        shared_xaxes=True,
        shared_yaxes=True,
        horizontal_spacing=0.06,
        vertical_spacing=0.26,
    )
    for name, (words, down, across) in MATRIX.items():
        _cell(figure, cells[name], times[name], step_ms, {"row": down, "col": across})
        figure.add_annotation(
            x=0,
            y=1,
            xref="x domain",
            yref="y domain",
            xanchor="left",
            yanchor="bottom",
            yshift=4,
            text=_heading(words, cells[name], times[name]),
            showarrow=False,
            align="left",
            font={"size": 13},
            row=down,
            col=across,
        )
    figure.update_xaxes(
        range=[step_ms * (shortest // step_ms), step_ms * (longest // step_ms + 2)],
        showticklabels=True,
    )
    figure.update_xaxes(title="time of a request, ms", row=2)
    figure.update_yaxes(range=[0, 104], title="share, %", col=1)
    dressed(figure, title=title, caption=of_table(rows), height=640)
    return figure.update_layout(showlegend=False, margin_t=120)


def _step_ms(longest_ms: float) -> float:
    """How wide a step of the matrix is: 1 ms, or 2, 5, 10 and so on where it would have too "
    "many."""
    steps = (digit * 10.0**power for power in count() for digit in (1, 2, 5))
    return next(step for step in steps if longest_ms < MOST_STEPS * step)


def _cell(
    figure: Figure, row: dict[Any, Any], times: Series[float], step_ms: float, place: dict[str, int]
) -> None:
    """The shares of a condition's requests by their time, and the line of the prediction."""
    begins = (times.dropna() // step_ms * step_ms).value_counts().sort_index()
    shares = 100 * begins / len(times)
    figure.add_trace(
        Bar(
            x=[begin + step_ms / 2 for begin in shares.index],
            y=shares.to_list(),
            width=step_ms,
            marker={"color": BLUE, "line": {"color": BLUE, "width": 1}},
            customdata=[f"{begin:g} to {begin + step_ms:g} ms" for begin in shares.index],
            hovertemplate="%{y:.1f} %: %{customdata}<extra></extra>",
        ),
        **place,
    )
    if pandas.notna(row["predicted_p50_ms"]):
        figure.add_vline(
            x=float(row["predicted_p50_ms"]),
            line={"color": VERMILION, "dash": "dash", "width": 2},
            **place,
        )


def _heading(words: str, row: dict[Any, Any], times: Series[float]) -> str:
    """What stands above a cell, where no bar can be."""
    lost = int(times.isna().sum())
    return (
        f"<b>{words}</b><br><b>{milliseconds(row['mean_ms'], SMALLEST_MS)}</b> on average, "
        f"{row['stalled_pct']:.3g} % of the requests stall"
        + (f", {lost} not answered" if lost else "")
        + f"<br><span style='color:{VERMILION}'>{_predicted(row)}</span>"
    )


def _predicted(row: dict[Any, Any]) -> str:
    value = row["predicted_p50_ms"]
    if pandas.isna(value):
        return "no prediction"
    return f"predicted: {milliseconds(value, SMALLEST_MS)}" + (
        " for all but the first" if row["predicted_stalls"] else ""
    )


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
                width=PAIR_BAR,
                orientation="h",
                name=name,
                marker={"color": colour},
                text=[f"{value:.3g}" for value in rows[column]],
                textposition="outside",
                cliponaxis=False,
                hovertemplate="%{x:.3f} an answer<extra></extra>",
            )
            for column, name, colour, offset in (
                ("segments_per_answer", "segments of the server", BLUE, -PAIR_BAR / 2),
                ("acks_per_answer", "ACKs of the client", SKY, PAIR_BAR / 2),
            )
        ]
    )
    figure.add_trace(_predicted_segments(places, rows["predicted_segments"]))
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
        height=190 + SEGMENTS_ROW_PX * len(rows),
    )


def _predicted_segments(places: list[int], predicted: Series[float]) -> Scatter:
    """A mark across the upper bar of each condition with a prediction."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    for place, value in zip(places, predicted, strict=True):
        if value == value:
            xs += [float(value), float(value), None]
            ys += [place - PAIR_BAR, place, None]
    return Scatter(
        x=xs,
        y=ys,
        mode="lines",
        name="predicted segments, but for the first response",
        line={"color": VERMILION, "width": 3},
        hovertemplate="predicted %{x:g}<extra></extra>",
    )


def distribution(study: Study, *conditions: str) -> Figure:
    """The share of a condition's requests that were answered within a time, for each of these.

    Times are those of the capture at the server, from a request to the last part of its answer.
    """
    rows = study.results()
    chosen = conditions or study.conditions
    virtual = (rows["testbed"] == "virtual").any()
    return latency(
        {name: requests_of(study.run(name))["latency_ms"] for name in chosen},
        source=of_table(rows[rows["condition"].isin(chosen)]),
        lines_ms=STALL_MS,
        below_ms=SMALLEST_MS if virtual else None,
    )


def acks(study: Study, *conditions: str) -> Figure:
    """The share of the server's segments that were acknowledged within a time, by condition."""
    rows = study.results()
    chosen = conditions or study.conditions
    virtual = (rows["testbed"] == "virtual").any()
    return time_to_ack(
        {name: waited(table_of(study.run(name))) for name in chosen},
        source=of_table(rows[rows["condition"].isin(chosen)]),
        below_ms=SMALLEST_MS if virtual else None,
    )


def ladder(run: Run, steps: Sequence[str] | None = None) -> Figure:
    """The packets of one request of a run that goes as most do, or in these steps."""
    return ladder_of_request(
        table_of(run), typical(requests_of(run), steps), run, title=f"{run.condition}: one request"
    )


def ladder_of_request(
    table: DataFrame, request: Series[Any], source: Source = "", *, title: str = "One request"
) -> Figure:
    """The packets of one request, of a long one the first that fit: `table` are the segments of
    the capture, `request` a row of `labs.read.flows.exchanges.exchanges`. Of a run on a link with a
    delay the caption says where in the path the capture was taken."""
    rows = packets_of(table, request)
    shown = rows[:MOST_PACKETS]
    more = "" if len(shown) == len(rows) else f", of {len(rows):,} packets the first"
    delayed = isinstance(source, Run) and source.link.asked.delay_ms
    caption = where_from(source) + (AFTER_DELAY if delayed else "")
    return drawn.ladder(
        table,
        int(request["connection"]),
        source=caption,
        title=title + more,
        rows=(shown[0], shown[-1]),
    )
