"""Figures of the lab `nagle`, each from a table of results, a study, a run or a capture."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pandas
from plotly.graph_objects import Bar, Figure, Scatter
from plotly.subplots import make_subplots

from labs.experiments.nagle.requests import packets_of, requests_of, table_of, typical
from labs.read.display.format import milliseconds
from labs.read.display.provenance import of_table
from labs.read.figures import ladder as drawn
from labs.read.figures.bar_rows import LEFT_PX, BarSeries, Measured, Row, bars, beside
from labs.read.figures.ecdf import latency, time_to_ack
from labs.read.figures.ladder import MOST_PACKETS
from labs.read.figures.style import (
    BLUE,
    LEGEND_ABOVE,
    NO_RUNS,
    SKY,
    VERMILION,
    dressed,
    nothing,
    plain,
    where_from,
)
from labs.read.flows.rtt import time_to_ack as waited
from labs.read.readings.latency import SMALLEST_MS
from labs.read.runs.run import Run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pandas import DataFrame, Series

    from labs.read.figures.style import Source
    from labs.read.study import Study

__all__ = [
    "acks",
    "by_condition",
    "distribution",
    "ladder",
    "ladder_of_request",
    "matrix",
    "segments",
]

PAIR_BAR, SEGMENTS_ROW_PX = 0.34, 44
TITLE = "Time per request by condition"
MEAN = BarSeries("measured, mean", BLUE)
TIMES = (
    "condition",
    "mean_ms",
    "predicted_mean_ms",
    "article_ms",
    "p50_ms",
    "p99_ms",
    "stalled_pct",
)
OURS_MS = frozenset({"mean_ms", "predicted_mean_ms", "p50_ms", "predicted_p50_ms", "p99_ms"})
MATRIX = {
    "off": ("Nagle,<br>delayed ACK", 1, 1),
    "quickack": ("Nagle,<br>quick ACK", 1, 2),
    "on": ("no Nagle,<br>delayed ACK", 2, 1),
    "on-quickack": ("no Nagle,<br>quick ACK", 2, 2),
}
MOST_STEPS = 60
STALL_MS = {"40 ms: shortest delay of an ACK": 40.0}
AFTER_DELAY = " · the server's packets are captured after the delay"
"""Source: net/core/dev.c dev_hard_start_xmit(): a capture sees a packet when the queue lets it go.
"""


def by_condition(table: DataFrame) -> Figure:
    """The mean time of a request under each condition: measured, predicted, published.

    `table` is `study.results()` or some rows of it. In virtual time, a mean below 1 ms has no
    bar, because it is not meaningful.
    """
    if table.empty:
        return nothing(TITLE, NO_RUNS)
    rows = table.reset_index(drop=True)
    figure = bars(
        [_row(row) for row in rows.to_dict("records")], title="time per request, ms", unit="ms"
    )
    return dressed(
        figure,
        title=TITLE,
        caption=of_table(rows),
        height=int(figure.layout.height),
        tell=tell_conditions(rows),
        table=pandas.DataFrame([_told(row, TIMES) for row in rows.to_dict("records")]),
    ).update_layout(margin_l=LEFT_PX)


def _row(row: dict[Any, Any]) -> Row:
    predicted, article = (_known(row[name]) for name in ("predicted_mean_ms", "article_ms"))
    return Row(
        str(row["condition"]),
        (
            Measured(
                MEAN,
                _drawn(row),
                f"<b>{_words(row['mean_ms'])}</b>" + beside(_digits(predicted), _digits(article)),
                None if predicted is None or predicted < SMALLEST_MS else predicted,
                article,
                str(row["article_claim"]),
            ),
        ),
        remark=f"{row['stalled_pct']:.3g} % stall" if row["stalled_pct"] else "",
    )


def _drawn(row: dict[Any, Any]) -> float | None:
    virtual = row["testbed"] == "virtual"
    return None if virtual and row["mean_ms"] < SMALLEST_MS else float(row["mean_ms"])


def _told(row: Mapping[Any, Any], columns: Sequence[str]) -> dict[str, Any]:
    """These columns of a row for a table: times of ours without meaning are said to be below 1."""
    short = {
        name
        for name in OURS_MS.intersection(columns)
        if row["testbed"] == "virtual"
        and (known := _known(row[name])) is not None
        and known < SMALLEST_MS
    }
    return {name: f"below {SMALLEST_MS:g}" if name in short else row[name] for name in columns}


def _known(value: Any) -> float | None:
    return None if pandas.isna(value) else float(value)


def _words(value: float | None) -> str:
    return "" if value is None else milliseconds(value, SMALLEST_MS)


def _digits(value: float | None) -> str:
    """What is compared with a time, in the same unit."""
    return _words(value).removesuffix(" ms")


def tell_conditions(rows: DataFrame) -> str:
    """The text alternative of the conditions: each mean, and how many requests stall."""
    said = [
        f"{row['condition']}: {_words(row['mean_ms'])}"
        + (f", {row['stalled_pct']:.3g} % stall" if row["stalled_pct"] else "")
        for row in rows.to_dict("records")
    ]
    return f"Mean time per request. {'; '.join(said)}."


def matrix(study: Study) -> Figure:
    """Nagle's algorithm and delayed ACKs, each on and off: how long requests took.

    A cell shows the share of requests by their time, with the predicted time of all but the first
    request of a connection, to be compared with the median. All cells have the same axis, from 0 to
    the longest time, in at most 60 steps. Times are those of the capture at the server; requests
    without a response have none, and are counted above the cell.
    """
    title = "Nagle's algorithm and delayed ACKs, on and off"
    table = study.results()
    rows = table[table["condition"].isin(MATRIX)]
    if len(rows) < len(MATRIX):
        return nothing(title, "requires the conditions " + ", ".join(MATRIX))
    cells = {str(row["condition"]): row for row in rows.to_dict("records")}
    times = {name: requests_of(study.run(name))["latency_ms"] for name in MATRIX}
    drawn = pandas.concat([*times.values(), rows["predicted_p50_ms"].astype(float)]).dropna()
    if drawn.empty:
        return nothing(title, "no request of these runs was answered")
    shortest, longest = min(0.0, float(drawn.min())), float(drawn.max())
    step_ms = _step_ms(longest)
    figure = make_subplots(
        rows=2,
        cols=2,
        shared_xaxes=True,
        shared_yaxes=True,
        horizontal_spacing=0.06,
        vertical_spacing=0.32,
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
            font={"size": 12},
            row=down,
            col=across,
        )
    figure.update_xaxes(
        range=[step_ms * (shortest // step_ms), step_ms * (longest // step_ms + 2)],
        showticklabels=True,
    )
    figure.update_xaxes(title="time, ms", row=2)
    figure.update_yaxes(range=[0, 104], title="share, %", col=1)
    dressed(
        figure,
        title=title,
        caption=f"{of_table(rows)}<br>dashed: predicted for all but the first request",
        height=720,
        tell=_tell_matrix(cells),
        table=_cells_table(cells),
    )
    return figure.update_layout(showlegend=False, margin_t=150)


def _tell_matrix(cells: dict[str, dict[Any, Any]]) -> str:
    """The text alternative: the median of each cell, and how many requests stall."""
    said = [
        f"{words}: {_words(cells[name]['p50_ms'])}, {cells[name]['stalled_pct']:.3g} % stall"
        for name, (words, _, _) in MATRIX.items()
    ]
    return f"Median time per request in four cells. {'; '.join(said)}."


def _cells_table(cells: dict[str, dict[Any, Any]]) -> DataFrame:
    columns = ("condition", "mean_ms", "p50_ms", "predicted_p50_ms", "stalled_pct", "requests")
    rows = [
        {"cell": plain(words), **_told(cells[name], columns)}
        for name, (words, _, _) in MATRIX.items()
    ]
    return pandas.DataFrame(rows)


def _step_ms(longest_ms: float) -> float:
    """The width of a step of the matrix: 1 ms, or 2, 5, 10 and so on if there would be too many."""
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
    """What is written above a cell, where no bar can be; short lines fit a narrow page."""
    lost = int(times.isna().sum())
    return (
        f"<b>{words}</b><br>median <b>{_words(row['p50_ms'])}</b>"
        f"<br>{row['stalled_pct']:.3g} % stall"
        + (f", {lost} not answered" if lost else "")
        + f"<br><span style='color:{VERMILION}'>┆ {_predicted(row)}</span>"
    )


def _predicted(row: dict[Any, Any]) -> str:
    value = row["predicted_p50_ms"]
    return "no prediction" if pandas.isna(value) else f"predicted {_words(value)}"


def segments(table: DataFrame) -> Figure:
    """The server's segments with payload and the client's ACKs without, per response, and the
    predicted number of the former. `table` is `study.results()` or some rows of it."""
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
                hovertemplate="%{x:.3f} per response<extra></extra>",
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
    figure.update_xaxes(title="number per response", range=[0, 1.12 * most])
    figure.update_yaxes(
        tickvals=places,
        ticktext=list(rows["condition"]),
        range=[len(rows) - 0.5, -0.5],
        showgrid=False,
    )
    figure.update_layout(barmode="overlay", legend=LEGEND_ABOVE)
    return dressed(
        figure,
        title="Segments and ACKs per response",
        caption=of_table(rows),
        height=190 + SEGMENTS_ROW_PX * len(rows),
        tell="Segments of the server and ACKs of the client per response. "
        + "; ".join(
            f"{row['condition']}: {row['segments_per_answer']:.3g} and {row['acks_per_answer']:.3g}"
            for row in rows.to_dict("records")
        )
        + ".",
        table=rows[["condition", "segments_per_answer", "predicted_segments", "acks_per_answer"]],
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
        name="predicted segments, except in the first response",
        line={"color": VERMILION, "width": 3},
        hovertemplate="predicted %{x:g}<extra></extra>",
    )


def distribution(study: Study, *conditions: str) -> Figure:
    """The cumulative distribution of the time per request, for each of these conditions.

    Times are those of the capture at the server, from a request to the last part of the response.
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
    """The cumulative distribution of the time until a segment of the server is acknowledged."""
    rows = study.results()
    chosen = conditions or study.conditions
    virtual = (rows["testbed"] == "virtual").any()
    return time_to_ack(
        {name: waited(table_of(study.run(name))) for name in chosen},
        source=of_table(rows[rows["condition"].isin(chosen)]),
        below_ms=SMALLEST_MS if virtual else None,
    )


def ladder(run: Run, steps: Sequence[str] | None = None) -> Figure:
    """The packets of one request: of the most frequent sequence, or of the given steps."""
    return ladder_of_request(
        table_of(run), typical(requests_of(run), steps), run, title=f"{run.condition}: one request"
    )


def ladder_of_request(
    table: DataFrame, request: Series[Any], source: Source = "", *, title: str = "One request"
) -> Figure:
    """The packets of one request, or the first packets of a long one.

    `table` has the segments of the capture, `request` is a row of
    `labs.read.flows.exchanges.exchanges`. For a link with a delay, the caption says where in the
    path the packets were captured.
    """
    rows = packets_of(table, request)
    shown = rows[:MOST_PACKETS]
    more = "" if len(shown) == len(rows) else f", the first of {len(rows):,} packets"
    delayed = isinstance(source, Run) and source.link.asked.delay_ms
    caption = where_from(source) + (AFTER_DELAY if delayed else "")
    return drawn.ladder(
        table,
        int(request["connection"]),
        source=caption,
        title=title + more,
        rows=(shown[0], shown[-1]),
    )
