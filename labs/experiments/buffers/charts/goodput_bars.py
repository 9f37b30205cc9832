"""Goodput condition by condition: measured, predicted, published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas
from plotly.graph_objects import Bar, Figure, Scatter

from labs.experiments.buffers.conditions import ARTICLE
from labs.experiments.buffers.results import NO_RATE
from labs.read.charts.style import BLACK, BLUE, GREY, ORANGE, SKY, VERMILION, dressed
from labs.read.display.format import in_three_digits
from labs.read.display.provenance import of_table

if TYPE_CHECKING:
    from pandas import DataFrame

BAR = 0.36
ROW_PX, MANY_ROW_PX, MANY = 78, 54, 6
ROOM = 1.45
"""How far the axis goes beyond the longest bar: the figures are written behind the bars."""


@dataclass(frozen=True)
class Measure:
    """One of the two bars of a condition, with what is held against it."""

    column: str
    predicted: str
    article: str
    name: str
    colour: str
    ink: str
    offset: float


MEASURES = (
    Measure(
        "goodput_mib_s",
        "predicted_mean_mib_s",
        "article_mib_s",
        "measured, mean of the file",
        BLUE,
        "white",
        -BAR / 2,
    ),
    Measure(
        "steady_mib_s",
        "predicted_mib_s",
        "article_steady_mib_s",
        "measured, last third",
        SKY,
        BLACK,
        BAR / 2,
    ),
)


@dataclass(frozen=True)
class _Bar:
    """A bar and its marks: where it is, what was measured, predicted and published (or None)."""

    place: float
    value: float
    predicted: float | None
    article: float | None
    claim: str


def by_condition(table: DataFrame) -> Figure:
    """Goodput of each condition: measured mean and last third, the prediction, the article.

    `table` is `study.results()`, or some rows of it; of those with a chart of their own (sweep,
    shares, loss) and of those without a download none is drawn if there are others. A run that
    nothing limits gets a note in place of its bars; one that is far beyond the shaped ones is cut
    at the edge, with its figure.
    """
    rows = _own_rows(table).reset_index(drop=True)
    free = rows["note_codes"].str.split().map(lambda codes: NO_RATE in codes).astype(bool)
    edge = _edge(rows[~free])
    figure = Figure()
    drawn = []
    for one in MEASURES:
        bars = _bars(rows[~free], one)
        _draw(figure, bars, one, edge)
        drawn += bars
    _mark(figure, [bar for bar in drawn if bar.value <= edge], edge)
    for place, note in _free_notes(rows[free]):
        figure.add_annotation(
            x=0, y=place, text=note, showarrow=False, xanchor="left", xshift=6, font={"color": GREY}
        )
    figure.update_xaxes(title="goodput, MiB/s", range=[0, edge * ROOM])
    figure.update_yaxes(
        tickvals=list(rows.index),
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
        title="Goodput by condition",
        caption=of_table(rows),
        height=190 + (ROW_PX if len(rows) < MANY else MANY_ROW_PX) * len(rows),
    )


def _own_rows(table: DataFrame) -> DataFrame:
    """The rows of the article's own conditions; all that are downloads if there are none."""
    downloads = table[table["bytes"].notna()]
    own: DataFrame = downloads[downloads["group"] == ARTICLE.name]
    return downloads if own.empty else own


def _edge(rows: DataFrame) -> float:
    """The longest figure that is drawn in full: of the shaped runs, or of all if none is."""
    shaped = rows[rows["rate_mbit"].notna()]
    known = rows if shaped.empty else shaped
    columns = [name for one in MEASURES for name in (one.column, one.predicted, one.article)]
    longest = known[columns].astype(float).max().max()
    return float(longest) if pandas.notna(longest) and longest > 0 else 1.0


def _bars(rows: DataFrame, one: Measure) -> list[_Bar]:
    return [
        _Bar(
            place + one.offset,
            float(row[one.column]),
            _known(row[one.predicted]),
            _known(row[one.article]),
            str(row["article_claim"]),
        )
        for place, row in zip(rows.index.to_list(), rows.to_dict("records"), strict=True)
        if _known(row[one.column]) is not None
    ]


def _draw(figure: Figure, bars: list[_Bar], one: Measure, edge: float) -> None:
    figure.add_trace(
        Bar(
            x=[min(bar.value, edge * ROOM) for bar in bars],
            y=[bar.place for bar in bars],
            width=BAR,
            orientation="h",
            name=one.name,
            marker={"color": one.colour},
            customdata=[bar.value for bar in bars],
            hovertemplate="%{customdata:.2f} MiB/s<extra></extra>",
        )
    )
    for bar in bars:
        cut = bar.value > edge
        behind = max(
            value for value in (bar.value, bar.predicted, bar.article) if value is not None
        )
        figure.add_annotation(
            x=edge * ROOM if cut else behind,
            y=bar.place,
            text=_label(bar, cut),
            showarrow=False,
            xanchor="right" if cut else "left",
            xshift=-8 if cut else 9,
            font={"color": one.ink if cut else BLACK},
        )


def _label(bar: _Bar, cut: bool) -> str:
    beside = [
        f"{name} {in_three_digits(value)}"
        for name, value in (("predicted", bar.predicted), ("article", bar.article))
        if value is not None
    ]
    return (
        f"<b>{in_three_digits(bar.value)}</b>"
        + (f"  ({', '.join(beside)})" if beside else "")
        + (" →" if cut else "")
    )


def _mark(figure: Figure, bars: list[_Bar], edge: float) -> None:
    """The predictions as lines across their bars, the article's figures as dots on theirs."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    for bar in bars:
        if bar.predicted is not None and bar.predicted <= edge:
            xs += [bar.predicted, bar.predicted, None]
            ys += [bar.place - BAR / 2, bar.place + BAR / 2, None]
    if xs:
        figure.add_trace(
            Scatter(
                x=xs,
                y=ys,
                mode="lines",
                name="predicted",
                line={"color": VERMILION, "width": 3},
                hovertemplate="predicted %{x:.2f} MiB/s<extra></extra>",
            )
        )
    dots = [
        (bar.article, bar.place, bar.claim)
        for bar in bars
        if bar.article is not None and bar.article <= edge
    ]
    if dots:
        figure.add_trace(
            Scatter(
                x=[x for x, _, _ in dots],
                y=[y for _, y, _ in dots],
                mode="markers",
                name="the article",
                text=[claim for _, _, claim in dots],
                marker={"size": 11, "color": ORANGE, "line": {"color": "black", "width": 1}},
                hovertemplate="%{text}: %{x:g} MiB/s<extra></extra>",
            )
        )


def _free_notes(rows: DataFrame) -> list[tuple[float, str]]:
    notes = []
    for place, article in zip(rows.index.to_list(), rows["article_mib_s"], strict=True):
        beside = f" (article, on its machines: {article:g})" if pandas.notna(article) else ""
        notes.append((float(place), f"no limit: no shaper, and work takes no virtual time{beside}"))
    return notes


def _known(value: Any) -> float | None:
    return None if pandas.isna(value) else float(value)
