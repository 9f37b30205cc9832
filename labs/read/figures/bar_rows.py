"""Horizontal bars, condition by condition, each with its predicted and its published figure.

Figures are written above their bars, never next to them: a narrow page has no room there, and a
mark directly before a number would be read as its sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap

from plotly.graph_objects import Bar, Figure, Scatter

from labs.read.figures.style import GREY, LEGEND_ABOVE, ORANGE, VERMILION

NAME_PX, WORDS_PX, BAR_PX, GAP_PX = 19, 16, 11, 9
FRAME_PX = 190
"""The height of a figure around its rows: title, legend, axis and caption."""
ROOM = 1.04
"""How far the axis extends beyond the longest bar or mark."""
MARK_PX, LEFT_PX = 1, 20
NOTE_LETTERS = 46
"""How long a line of a note may be, so that it fits a narrow page."""
PREDICTED = f"<span style='color:{VERMILION}'><b>|</b></span>\N{NO-BREAK SPACE}predicted"
ARTICLE = f"<span style='color:{ORANGE}'>●</span>\N{NO-BREAK SPACE}article"


@dataclass(frozen=True)
class BarSeries:
    """What one bar of each row means."""

    name: str
    colour: str


@dataclass(frozen=True)
class Measured:
    """A bar: its length (None for a figure that is not drawn), and what is compared with it.

    `words` are written above the bar, `claim` names the article's claim.
    """

    series: BarSeries
    value: float | None
    words: str
    predicted: float | None = None
    article: float | None = None
    claim: str = ""

    @property
    def drawn(self) -> tuple[float, ...]:
        """Everything on the axis."""
        known = (self.value, self.predicted, self.article)
        return tuple(value for value in known if value is not None)


@dataclass(frozen=True)
class Row:
    """A condition with its bars, or with a note in place of them; `remark` follows its name."""

    name: str
    bars: tuple[Measured, ...] = ()
    note: str = ""
    remark: str = ""


def bars(rows: Sequence[Row], *, title: str, unit: str, edge: float | None = None) -> Figure:
    """The rows from top to bottom on one axis that begins at 0 and is long enough for all of them.

    What is longer than `edge` ends at the end of the axis with an arrow; its words have the figure.
    One unit of the y axis is one pixel.
    """
    drawn = [value for row in rows for bar in row.bars for value in bar.drawn]
    end = ROOM * (max(drawn, default=1.0) or 1.0 if edge is None else edge)
    figure, places, top = Figure(), [], 0
    placed: list[tuple[float, Measured]] = []
    for row in rows:
        said = [row.remark, *(bar.words for bar in row.bars if not bar.drawn)]
        note = wrap(row.note, NOTE_LETTERS)
        name = "  ".join([f"<b>{row.name}</b>", *filter(None, said)])
        _words(figure, top, "<br>".join([name, *note]))
        places.append(top + NAME_PX / 2)
        top += NAME_PX + WORDS_PX * len(note)
        for bar in row.bars:
            if bar.drawn:
                cut = bar.value is not None and bar.value > end
                _words(figure, top, bar.words + (" →" if cut else ""))
                placed.append((top + WORDS_PX + BAR_PX / 2, bar))
                top += WORDS_PX + BAR_PX + 2
        top += GAP_PX if any(bar.drawn for bar in row.bars) else 0
    _draw(figure, placed, end, unit)
    _mark(figure, placed, end, unit)
    figure.update_xaxes(title=title, range=[0, end], side="bottom")
    figure.update_yaxes(
        tickvals=places, ticktext=[row.name for row in rows], visible=False, range=[top + 4, -4]
    )
    return figure.update_layout(
        barmode="overlay", height=FRAME_PX + top, showlegend=True, legend=LEGEND_ABOVE
    )


def beside(predicted: str, article: str) -> str:
    """The compared figures in words, each with the sign that it has in the figure."""
    known = [(PREDICTED, predicted), (ARTICLE, article)]
    return "".join(f" · {sign} {value}" for sign, value in known if value)


def _words(figure: Figure, top: float, words: str) -> None:
    figure.add_annotation(
        x=0,
        xref="paper",
        y=top,
        text=words,
        showarrow=False,
        xanchor="left",
        yanchor="top",
        align="left",
        font={"size": 12},
    )


def _draw(figure: Figure, placed: list[tuple[float, Measured]], end: float, unit: str) -> None:
    for series in dict.fromkeys(bar.series for _, bar in placed):
        own = [
            (place, bar.value)
            for place, bar in placed
            if bar.series == series and bar.value is not None
        ]
        figure.add_trace(
            Bar(
                x=[min(value, end) for _, value in own],
                y=[place for place, _ in own],
                width=BAR_PX,
                orientation="h",
                name=series.name,
                marker={"color": series.colour},
                customdata=[value for _, value in own],
                hovertemplate=f"%{{customdata:.4g}} {unit}<extra>{series.name}</extra>",
            )
        )


def _mark(figure: Figure, placed: list[tuple[float, Measured]], end: float, unit: str) -> None:
    """The predictions as lines across their bars, the article's figures as dots."""
    predicted = [(bar.predicted, place) for place, bar in placed if bar.predicted is not None]
    xs: list[float | None] = []
    ys: list[float | None] = []
    for value, place in predicted:
        xs += [min(value, end)] * 2 + [None]
        ys += [place - BAR_PX / 2 - MARK_PX, place + BAR_PX / 2 + MARK_PX, None]
    if predicted:
        figure.add_trace(
            Scatter(
                x=xs,
                y=ys,
                mode="lines",
                name="predicted",
                line={"color": VERMILION, "width": 3},
                hovertemplate=f"predicted %{{x:.4g}} {unit}<extra></extra>",
            )
        )
    published = [
        (bar.article, place, bar.claim) for place, bar in placed if bar.article is not None
    ]
    if published:
        figure.add_trace(
            Scatter(
                x=[min(value, end) for value, _, _ in published],
                y=[place for _, place, _ in published],
                mode="markers",
                cliponaxis=False,
                name="the article",
                text=[f"{claim}: {value:g} {unit}" for value, _, claim in published],
                marker={"size": 11, "color": ORANGE, "line": {"color": GREY, "width": 1}},
                hovertemplate="%{text}<extra></extra>",
            )
        )
