"""The effect of each setting on the latency: ratios of two conditions with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pandas
from pandas import DataFrame
from plotly.graph_objects import Figure, Scatter

from labs.errors import BadInput
from labs.experiments.stack.charts.chosen import places
from labs.experiments.stack.effects import MEDIAN, SHARED, TAIL, Effect, ratio_in_words
from labs.experiments.stack.effects import effects as compared
from labs.experiments.stack.settings import Settings
from labs.read.display.provenance import of_table
from labs.read.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    LEGEND_ABOVE,
    NO_RUNS,
    ORANGE,
    PURPLE,
    dressed,
    log_ticks,
    log_title,
    nothing,
)
from labs.read.stats.repetitions import Interval
from labs.read.study import Study

TITLE = "Effects on the latency"
LEGEND = "bars: 95 % bootstrap intervals of the ratio · hollow: the setting was not applied here"
MARKED = "*"
SHORT_NOT_APPLIED, SHORT_TOO_FEW = "not applied", "too few runs"
"""Short enough for a phone; the legend adds where."""
NAME_PX, MARK_PX, FRAME_PX, LEFT_PX = 17, 9, 190, 20
PLACE_LOOKS = ((BLUE, "circle"), (GREEN, "square"), (PURPLE, "triangle-up"), (ORANGE, "diamond"))
Pair: TypeAlias = tuple[str, str]
"""A condition, and the one that it is compared with."""


@dataclass(frozen=True)
class Series:
    """The ratios drawn with the same marks: a percentile, or the median of one study."""

    words: str
    column: str
    colour: str
    symbol: str
    found: Mapping[Pair, Effect]

    def ratio(self, pair: Pair) -> Interval | None:
        return self.found[pair].ratios[self.column] if pair in self.found else None


def effects(study: Study, *others: Study, connections: int = 1) -> Figure:
    """The latency of each condition with this number of connections, divided by that of the
    condition without its setting: median and 99th percentile. With `others`, the medians of all
    studies, for the conditions that one of the others has.

    Hollow marks: the setting was not applied on this machine. Studies without runs are left out.
    """
    kind = "1 connection" if connections == 1 else f"{connections} connections"
    title = f"{TITLE}, {kind}"
    studies = [one for one in (study, *others) if one.runs]
    compared_with = [one for one in others if one.runs]
    if others and not compared_with:
        return nothing(title, "there is no study on another testbed")
    series = _series(studies, connections)
    chosen = {pair for one in compared_with for pair in _with(one, connections)}
    every = dict.fromkeys(pair for one in series for pair in one.found)
    pairs = [pair for pair in every if pair in chosen or not others]
    if not pairs:
        return nothing(title, NO_RUNS)
    figure, row_px = Figure(), NAME_PX + MARK_PX * len(series)
    figure.add_vline(x=1, line={"color": BLACK, "width": 1})
    for number, pair in enumerate(pairs):
        figure.add_annotation(
            x=0,
            xref="paper",
            y=number * row_px,
            text=f"<b>{pair[0]}</b> / {pair[1]}{_beside(pair, series, len(studies))}",
            showarrow=False,
            xanchor="left",
            yanchor="top",
            align="left",
            font={"size": 12},
        )
    for place, one in enumerate(series):
        middle_px = NAME_PX + MARK_PX * place + MARK_PX / 2
        tops = {pair: number * row_px + middle_px for number, pair in enumerate(pairs)}
        figure.add_trace(_marks(one, tops))
    height = len(pairs) * row_px
    _axes(figure, series, pairs, height)
    return dressed(
        figure,
        title=title,
        caption=f"{_caption(studies, pairs)}<br>{_legend(pairs, series)}",
        height=FRAME_PX + height,
        tell=f"{title}, as ratios. {'; '.join(_told(pair, series) for pair in pairs)}.",
        table=DataFrame([_row(pair, series) for pair in pairs]),
    ).update_layout(margin_l=LEFT_PX)


def _series(studies: Sequence[Study], connections: int) -> list[Series]:
    if len(studies) == 1:
        found = _with(studies[0], connections)
        return [
            Series("median", MEDIAN, BLUE, "circle", found),
            Series("99th percentile", TAIL, ORANGE, "diamond", found),
        ]
    by_place = {place: _with(one, connections) for place, one in places(studies).items()}
    known = [(place, some) for place, some in by_place.items() if some]
    if len(known) > len(PLACE_LOOKS):
        raise BadInput(
            f"{len(known)} studies are too many for this chart, which shows at most "
            f"{len(PLACE_LOOKS)}. Leave some out"
        )
    looks = PLACE_LOOKS[: len(known)]
    return [
        Series(f"{place}, median", MEDIAN, colour, symbol, some)
        for (place, some), (colour, symbol) in zip(known, looks, strict=True)
    ]


def _with(study: Study, connections: int) -> dict[Pair, Effect]:
    """The effects of the conditions with this number of connections."""
    asked = {one.condition: one.middle.settings_as(Settings).connections for one in study.repeated}
    return {
        (one.condition, one.against): one
        for one in compared(study.repeated)
        if asked[one.condition] == connections
    }


def _marks(series: Series, tops: Mapping[Pair, float]) -> Scatter:
    rows = [
        (pair, top, ratio)
        for pair, top in tops.items()
        if (ratio := series.ratio(pair)) is not None
    ]
    return Scatter(
        x=[ratio.middle for _, _, ratio in rows],
        y=[top for _, top, _ in rows],
        mode="markers",
        name=series.words,
        showlegend=True,
        marker={
            "color": series.colour,
            "size": 9,
            "symbol": [
                series.symbol if series.found[pair].effective else f"{series.symbol}-open"
                for pair, _, _ in rows
            ],
            "line": {"width": 2, "color": series.colour},
        },
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [ratio.high - ratio.middle for _, _, ratio in rows],
            "arrayminus": [ratio.middle - ratio.low for _, _, ratio in rows],
            "color": series.colour,
            "thickness": 1.5,
            "width": 3,
        },
        text=[f"{pair[0]} / {pair[1]}: {ratio_in_words(ratio)}" for pair, _, ratio in rows],
        hovertemplate="%{text}<extra>" + series.words + "</extra>",
    )


def _axes(figure: Figure, series: Sequence[Series], pairs: Sequence[Pair], height: int) -> None:
    known = [ratio for one in series for pair in pairs if (ratio := one.ratio(pair))]
    edges = [1.0, *(edge for ratio in known for edge in (ratio.low, ratio.high))]
    ticks = log_ticks(min(edges) / 1.5, max(edges) * 1.5)
    figure.update_xaxes(
        type="log",
        title=log_title("ratio of latencies"),
        tickvals=ticks,
        ticktext=[f"{tick:g}" for tick in ticks],
    )
    figure.update_yaxes(visible=False, range=[height + 4, -4])
    figure.update_layout(legend=LEGEND_ABOVE)


def _beside(pair: Pair, series: Sequence[Series], studies: int) -> str:
    """The text after the name of a pair: its ratio of medians, if there is only one study, and a
    mark if the two conditions also differ in something else."""
    mark = f" {MARKED}" if _shared([pair], series) else ""
    return f": <b>{_words(pair, series[0])}</b>{mark}" if studies == 1 else mark


def _shared(pairs: Sequence[Pair], series: Sequence[Series]) -> list[str]:
    """Why server and load of these pairs share a CPU in one of two conditions only."""
    found = [one.found[pair] for one in series for pair in pairs if pair in one.found]
    return list(dict.fromkeys(one.beside for one in found if one.effective and one.beside))


def _legend(pairs: Sequence[Pair], series: Sequence[Series]) -> str:
    shared = _shared(pairs, series)
    return f"{LEGEND} · {MARKED} {SHARED} ({'; '.join(shared)})" if shared else LEGEND


def _words(pair: Pair, series: Series) -> str:
    if pair not in series.found:
        return "no runs"
    if not series.found[pair].effective:
        return SHORT_NOT_APPLIED
    ratio = series.ratio(pair)
    return SHORT_TOO_FEW if ratio is None else f"{ratio.middle:#.3g}"


def _told(pair: Pair, series: Sequence[Series]) -> str:
    said = ", ".join(f"{one.words} {_words(pair, one)}" for one in series)
    return f"{pair[0]} over {pair[1]}: {said}"


def _row(pair: Pair, series: Sequence[Series]) -> dict[str, object]:
    cells: dict[str, object] = {"condition": pair[0], "compared with": pair[1]}
    for one in series:
        ratio = one.ratio(pair)
        cells[one.words] = "" if ratio is None else ratio_in_words(ratio)
    known = [one.found[pair] for one in series if pair in one.found]
    ignored = dict.fromkeys(one.because for one in known if not one.effective)
    cells["not applied, because"] = "; ".join(ignored)
    return {**cells, "also differs": "; ".join(_shared([pair], series))}


def _caption(studies: Sequence[Study], pairs: Sequence[Pair]) -> str:
    names = {name for pair in pairs for name in pair}
    rows = pandas.concat([one.results() for one in studies])
    return of_table(rows[rows["condition"].isin(names)])
