"""Figures of the lab `buffers`: goodput by condition, and one run over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas
from plotly.graph_objects import Bar, Figure, Scatter

from labs.analysis.buffers import NO_RATE
from labs.analysis.origin import of_table
from labs.charts.style import BLUE, GREY, ORANGE, SKY, VERMILION, dressed
from labs.charts.timeline import timeline

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["by_condition", "timeline"]

BAR = 0.34
ROOM = 1.35
"""How far the axis goes beyond the longest bar: the figures are written behind the bars."""


@dataclass(frozen=True)
class Measure:
    """One of the two bars of a condition, and the article's figure that belongs to it."""

    column: str
    article: str
    name: str
    colour: str
    offset: float


MEASURES = (
    Measure("goodput_mib_s", "article_mib_s", "measured, mean of the file", BLUE, -BAR / 2),
    Measure("steady_mib_s", "article_steady_mib_s", "measured, last third", SKY, BAR / 2),
)
FIGURES = tuple(name for one in MEASURES for name in (one.column, one.article))


def by_condition(table: DataFrame) -> Figure:
    """Goodput of each condition: measured mean and last third, the prediction, the article.

    `table` is `study.results()`, or some rows of it. A run that nothing limits gets a note in
    place of its bars; one that is far beyond the shaped ones is cut at the edge, with its figure.
    """
    rows = table.reset_index(drop=True)
    free = rows["marks"].str.contains(NO_RATE, regex=False)
    edge = _edge(rows[~free])
    figure = Figure()
    for one in MEASURES:
        _bars(figure, rows[~free], one, edge)
    _marks(figure, rows[~free], edge)
    for at, row in rows[free].iterrows():
        figure.add_annotation(x=0, y=at, text=_free_note(row), showarrow=False, xanchor="left",
                              xshift=6, font={"color": GREY})
    figure.update_xaxes(title="goodput, MiB/s", range=[0, edge * ROOM], rangemode="tozero")
    figure.update_yaxes(tickvals=list(rows.index), ticktext=list(rows["condition"]),
                        range=[len(rows) - 0.5, -0.5], showgrid=False)
    figure.update_layout(barmode="overlay", legend={
        "orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "xanchor": "left"})
    return dressed(figure, title="Goodput by condition", caption=of_table(rows),
                   height=190 + 78 * len(rows))


def _edge(rows: DataFrame) -> float:
    """The longest figure that is drawn in full: of the shaped runs, or of all if none is."""
    shaped = rows[rows["rate_mbit"].notna()]
    known = (rows if shaped.empty else shaped)[[*FIGURES, "predicted_mib_s"]]
    longest = known.max(numeric_only=True).max()
    return float(longest) if pandas.notna(longest) and longest > 0 else 1.0


def _bars(figure: Figure, rows: DataFrame, one: Measure, edge: float) -> None:
    rows = rows[rows[one.column].notna()]
    values = [float(value) for value in rows[one.column]]
    places = [float(at) + one.offset for at in rows.index]
    figure.add_trace(Bar(
        x=[min(value, edge * ROOM) for value in values], y=places, width=BAR, orientation="h",
        name=one.name, marker={"color": one.colour}, customdata=values,
        hovertemplate="%{customdata:.2f} MiB/s<extra></extra>"))
    for at, value, article, predicted in zip(
            places, values, rows[one.article], rows["predicted_mib_s"], strict=True):
        behind = max(v for v in (value, article, predicted) if pandas.notna(v))
        beyond = value > edge
        figure.add_annotation(
            x=edge * ROOM if beyond else behind, y=at, showarrow=False, xshift=-8 if beyond else 8,
            xanchor="right" if beyond else "left", font={"color": "white"} if beyond else None,
            text=_label(value, article) + (" →" if beyond else ""))


def _label(value: float, article: float) -> str:
    return f"{value:.1f}" + (f"  (article {article:g})" if pandas.notna(article) else "")


def _marks(figure: Figure, rows: DataFrame, edge: float) -> None:
    """The prediction as a line across both bars, the article's figures as dots on their own."""
    known = rows[rows["predicted_mib_s"].notna() & (rows["predicted_mib_s"] <= edge)]
    xs: list[float | None] = []
    ys: list[float | None] = []
    for at, value in zip(known.index, known["predicted_mib_s"], strict=True):
        xs += [float(value), float(value), None]
        ys += [at - BAR - 0.04, at + BAR + 0.04, None]
    figure.add_trace(Scatter(
        x=xs, y=ys, mode="lines", name="predicted, in the long run",
        line={"color": VERMILION, "width": 3}, hovertemplate="%{x:.1f} MiB/s<extra></extra>"))
    dots = [(figure_of, float(at) + one.offset, claim)
            for one in MEASURES
            for at, figure_of, claim in zip(rows.index, rows[one.article], rows["article_claim"],
                                            strict=True)
            if pandas.notna(figure_of) and figure_of <= edge]
    if dots:
        figure.add_trace(Scatter(
            x=[x for x, _, _ in dots], y=[y for _, y, _ in dots], mode="markers",
            name="the article", text=[claim for _, _, claim in dots],
            marker={"symbol": "circle", "size": 11, "color": ORANGE,
                    "line": {"color": "black", "width": 1}},
            hovertemplate="%{text}: %{x:g} MiB/s<extra></extra>"))


def _free_note(row: Any) -> str:
    article = row["article_mib_s"]
    beside = f" (article, on its machines: {article:g})" if pandas.notna(article) else ""
    return f"no limit: nothing shapes the link, and work takes no virtual time{beside}"
