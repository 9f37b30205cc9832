"""How long answers took: condition by condition, and the matrix of Nagle and delayed ACK."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pandas
from plotly.graph_objects import Bar, Figure, Scatter
from plotly.subplots import make_subplots

from labs.analysis.answered import requests_of
from labs.analysis.latency import SMALLEST_MS
from labs.analysis.nagle_words import milliseconds
from labs.analysis.origin import of_table
from labs.charts.style import BLUE, ORANGE, VERMILION, dressed, nothing

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from labs.study import Study

BAR, ROW_PX = 0.55, 34
ROOM = 1.75
"""How far the axis goes beyond the longest bar: the figures are written behind the bars."""
MATRIX = {
    "off": ("Nagle, delayed ACK", 1, 1), "quickack": ("Nagle, quick ACK", 1, 2),
    "on": ("no Nagle, delayed ACK", 2, 1), "on-quickack": ("no Nagle, quick ACK", 2, 2),
}
MOST_STEPS = 60


def by_condition(table: DataFrame) -> Figure:
    """The mean time of a request under each condition: measured, predicted, published.

    `table` is `study.results()` or some rows of it. On virtual time, what is shorter than 1 ms has
    no bar: nothing is measured there.
    """
    rows = table.reset_index(drop=True)
    places = rows.index.to_list()
    edge = float(rows[["mean_ms", "predicted_mean_ms", "article_ms"]].astype(float).max().max())
    figure = Figure(Bar(
        x=[_drawn(row) for row in rows.to_dict("records")], y=places, width=BAR, orientation="h",
        name="measured, mean", marker={"color": BLUE}, customdata=rows[["p50_ms", "p99_ms"]],
        hovertemplate="%{x:.2f} ms; half within %{customdata[0]:.1f}, 99 % within "
                      "%{customdata[1]:.1f} ms<extra></extra>"))
    _predictions(figure, rows)
    _published(figure, rows)
    for place, row in zip(places, rows.to_dict("records"), strict=True):
        figure.add_annotation(x=_reach(row), y=place, text=_label(row), showarrow=False,
                              xanchor="left", xshift=9, font={"size": 12})
    figure.update_xaxes(title="time per request, ms", range=[0, edge * ROOM])
    figure.update_yaxes(tickvals=places, ticktext=list(rows["condition"]),
                        range=[len(rows) - 0.5, -0.5], showgrid=False)
    figure.update_layout(legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom",
                                 "xanchor": "left"}, showlegend=True)
    return dressed(figure, title="Time per request by condition", caption=of_table(rows),
                   height=190 + ROW_PX * len(rows))


def _drawn(row: dict[Any, Any]) -> float:
    virtual = row["testbed"] == "virtual"
    return 0.0 if virtual and row["mean_ms"] < SMALLEST_MS else float(row["mean_ms"])


def _reach(row: dict[Any, Any]) -> float:
    """The end of all that is drawn of a row."""
    others = [row["predicted_mean_ms"], row["article_ms"]]
    return max([_drawn(row), *(float(value) for value in others if pandas.notna(value))])


def _label(row: dict[Any, Any]) -> str:
    beside = [f"{name} {milliseconds(value)}" for name, value in (
        ("predicted", row["predicted_mean_ms"]), ("article", row["article_ms"]))
        if pandas.notna(value)]
    said = f"<b>{milliseconds(row['mean_ms'])}</b>" + (
        f"  ({', '.join(beside)})" if beside else "")
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
        figure.add_trace(Scatter(
            x=xs, y=ys, mode="lines", name="predicted", line={"color": VERMILION, "width": 3},
            hovertemplate="predicted %{x:.2f} ms<extra></extra>"))


def _published(figure: Figure, rows: DataFrame) -> None:
    known = rows[rows["article_ms"].notna()]
    if len(known):
        figure.add_trace(Scatter(
            x=known["article_ms"], y=known.index, mode="markers", name="the article",
            text=known["article_claim"],
            marker={"size": 11, "color": ORANGE, "line": {"color": "black", "width": 1}},
            hovertemplate="%{text}: %{x:g} ms<extra></extra>"))


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
    figure = make_subplots(rows=2, cols=2, shared_xaxes=True, shared_yaxes=True,
                           horizontal_spacing=0.06, vertical_spacing=0.26)
    for name, (words, down, across) in MATRIX.items():
        _cell(figure, cells[name], times[name], step_ms, {"row": down, "col": across})
        figure.add_annotation(
            x=0, y=1, xref="x domain", yref="y domain", xanchor="left", yanchor="bottom", yshift=4,
            text=_heading(words, cells[name], times[name]), showarrow=False, align="left",
            font={"size": 13}, row=down, col=across)
    figure.update_xaxes(range=[step_ms * (shortest // step_ms),
                               step_ms * (longest // step_ms + 2)],
                        showticklabels=True)
    figure.update_xaxes(title="time of a request, ms", row=2)
    figure.update_yaxes(range=[0, 104], title="share, %", col=1)
    dressed(figure, title=title, caption=of_table(rows), height=640)
    return figure.update_layout(showlegend=False, margin_t=120)


def _step_ms(longest_ms: float) -> float:
    """How wide a step of the matrix is: 1 ms, or 2, 5, 10 and so on where it would have too many.
    """
    steps = (digit * 10.0**power for power in count() for digit in (1, 2, 5))
    return next(step for step in steps if longest_ms < MOST_STEPS * step)


def _cell(figure: Figure, row: dict[Any, Any], times: Series[float], step_ms: float,
          place: dict[str, int]) -> None:
    """The shares of a condition's requests by their time, and the line of the prediction."""
    begins = (times.dropna() // step_ms * step_ms).value_counts().sort_index()
    shares = 100 * begins / len(times)
    figure.add_trace(Bar(
        x=[begin + step_ms / 2 for begin in shares.index], y=shares.to_list(), width=step_ms,
        marker={"color": BLUE, "line": {"color": BLUE, "width": 1}},
        customdata=[f"{begin:g} to {begin + step_ms:g} ms" for begin in shares.index],
        hovertemplate="%{y:.1f} %: %{customdata}<extra></extra>"), **place)
    if pandas.notna(row["predicted_p50_ms"]):
        figure.add_vline(x=float(row["predicted_p50_ms"]), line={
            "color": VERMILION, "dash": "dash", "width": 2}, **place)


def _heading(words: str, row: dict[Any, Any], times: Series[float]) -> str:
    """What stands above a cell, where no bar can be."""
    lost = int(times.isna().sum())
    return (f"<b>{words}</b><br><b>{milliseconds(row['mean_ms'])}</b> on average, "
            f"{row['stalled_pct']:.3g} % of the requests stall"
            + (f", {lost} not answered" if lost else "")
            + f"<br><span style='color:{VERMILION}'>{_predicted(row)}</span>")


def _predicted(row: dict[Any, Any]) -> str:
    value = row["predicted_p50_ms"]
    if pandas.isna(value):
        return "no prediction"
    return f"predicted: {milliseconds(value)}" + (
        " for all but the first" if row["predicted_stalls"] else "")
