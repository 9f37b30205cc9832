"""The effect of each setting on the latency: ratios of two conditions with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pandas import DataFrame
from plotly.graph_objects import Figure, Scatter

from labs.experiments.stack.effects import LATENCIES, Effect
from labs.experiments.stack.effects import effects as compared
from labs.experiments.stack.latencies import settings_of
from labs.read.charts.style import (
    BLACK,
    BLUE,
    NO_RUNS,
    ORANGE,
    dressed,
    log_ticks,
    log_title,
    nothing,
)
from labs.read.display.provenance import of_table

if TYPE_CHECKING:
    from labs.read.lab import Study

TITLE = "Effects on the latency"
NO_EFFECT, TOO_FEW = "no effect here", "too few undisturbed runs"
LEGEND = "bars: 95 % bootstrap intervals of the ratio · hollow: no effect here, so the ratio is 1"
NAME_PX, MARKS_PX, FRAME_PX, LEFT_PX = 17, 19, 190, 20
APART_PX = 4
"""How far the mark of the 99th percentile is below that of the median."""


@dataclass(frozen=True)
class Percentile:
    """A percentile of the latency whose ratio is drawn."""

    column: str
    words: str
    colour: str
    symbol: str
    shift_px: int


DRAWN = (
    Percentile("p50_us", "median", BLUE, "circle", -APART_PX),
    Percentile("p99_us", "99th percentile", ORANGE, "diamond", APART_PX),
)


def effects(study: Study, connections: int = 1) -> Figure:
    """The latency of each condition with so many connections, divided by that of the condition
    without its setting.

    Hollow marks: the setting has no effect on this machine.
    """
    kind = "1 connection" if connections == 1 else f"{connections} connections"
    title = f"{TITLE}, {kind}"
    found = _with(study, connections)
    if not found:
        return nothing(title, NO_RUNS)
    figure = Figure()
    figure.add_vline(x=1, line={"color": BLACK, "width": 1})
    places = {}
    for number, one in enumerate(found):
        top = number * (NAME_PX + MARKS_PX)
        places[one.condition] = top + NAME_PX + MARKS_PX / 2
        figure.add_annotation(
            x=0,
            xref="paper",
            y=top,
            text=f"<b>{one.condition}</b> / {one.against}: <b>{_words(one)}</b>",
            showarrow=False,
            xanchor="left",
            yanchor="top",
            align="left",
            font={"size": 12},
        )
    for percentile in DRAWN:
        figure.add_trace(_marks(found, places, percentile))
    height = len(found) * (NAME_PX + MARKS_PX)
    _axes(figure, found, height)
    names = {name for one in found for name in (one.condition, one.against)}
    table = study.results()
    return dressed(
        figure,
        title=title,
        caption=f"{of_table(table[table['condition'].isin(names)])}<br>{LEGEND}",
        height=FRAME_PX + height,
        tell=f"{title}, as ratios of medians. {'; '.join(_told(one) for one in found)}.",
        table=DataFrame([_row(one) for one in found]),
    ).update_layout(margin_l=LEFT_PX)


def _with(study: Study, connections: int) -> list[Effect]:
    """The effects of the conditions with so many connections."""
    asked = {one.condition: settings_of(one.middle).connections for one in study.repeated}
    return [one for one in compared(study.repeated) if asked[one.condition] == connections]


def _marks(found: Sequence[Effect], places: dict[str, float], one: Percentile) -> Scatter:
    rows = [
        (effect, places[effect.condition] + one.shift_px, ratio)
        for effect in found
        if (ratio := effect.ratios[one.column]) is not None
    ]
    return Scatter(
        x=[ratio.middle for _, _, ratio in rows],
        y=[place for _, place, _ in rows],
        mode="markers",
        name=one.words,
        showlegend=True,
        marker={
            "color": one.colour,
            "size": 9,
            "symbol": [
                one.symbol if effect.effective else f"{one.symbol}-open" for effect, _, _ in rows
            ],
            "line": {"width": 2, "color": one.colour},
        },
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [ratio.high - ratio.middle for _, _, ratio in rows],
            "arrayminus": [ratio.middle - ratio.low for _, _, ratio in rows],
            "color": one.colour,
            "thickness": 1.5,
            "width": 3,
        },
        text=[
            f"{effect.condition} / {effect.against}: {ratio.middle:.3g} "
            f"({ratio.low:.3g} to {ratio.high:.3g})"
            for effect, _, ratio in rows
        ],
        hovertemplate="%{text}<extra>" + one.words + "</extra>",
    )


def _axes(figure: Figure, found: Sequence[Effect], height: int) -> None:
    known = [one.ratios[name] for one in found for name in LATENCIES]
    edges = [1.0, *(edge for ratio in known if ratio for edge in (ratio.low, ratio.high))]
    ticks = log_ticks(min(edges) / 1.5, max(edges) * 1.5)
    figure.update_xaxes(
        type="log",
        title=log_title("ratio of latencies"),
        tickvals=ticks,
        ticktext=[f"{tick:g}" for tick in ticks],
    )
    figure.update_yaxes(visible=False, range=[height + APART_PX, -APART_PX])
    figure.update_layout(
        legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "xanchor": "left"}
    )


def _words(one: Effect) -> str:
    if not one.effective:
        return NO_EFFECT
    median = one.ratios["p50_us"]
    return TOO_FEW if median is None else f"{median.middle:.3g}"


def _told(one: Effect) -> str:
    return f"{one.condition} over {one.against}: {_words(one)}"


def _row(one: Effect) -> dict[str, object]:
    cells: dict[str, object] = {"condition": one.condition, "compared with": one.against}
    for each in DRAWN:
        ratio = one.ratios[each.column]
        cells[f"{each.words}, ratio"] = ratio and round(ratio.middle, 3)
        cells[f"{each.words}, interval"] = ratio and f"{ratio.low:.3g} to {ratio.high:.3g}"
    return {**cells, "effect here": "yes" if one.effective else f"no: {one.because}"}
