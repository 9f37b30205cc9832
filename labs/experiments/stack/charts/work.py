"""Latency and work per request: CPU time, context switches, interrupts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from pandas import DataFrame
from plotly.graph_objects import Bar, Figure
from plotly.subplots import make_subplots

from labs.experiments.stack.charts.chosen import chosen, where
from labs.read.display.format import in_three_digits
from labs.read.figures.style import BLUE, GREEN, NO_RUNS, ORANGE, PURPLE, SKY, dressed, nothing
from labs.read.stats.repetitions import Repeated
from labs.read.study import Study

TITLE = "Latency and work per request"
BAR_PX, NAME_PX, HEADING_PX, FRAME_PX, LEFT_PX = 11, 17, 34, 120, 20
ROW_PX = BAR_PX + NAME_PX
COUNTERS = "switches, interrupts and softirqs of the whole machine"


@dataclass(frozen=True)
class Measure:
    """A column of the results that is drawn in a panel of its own."""

    column: str
    words: str
    colour: str


MEASURES = (
    Measure("p50_us", "median latency (µs)", BLUE),
    Measure("cpu_us", "server CPU time per request (µs)", ORANGE),
    Measure("switches", "context switches per request", GREEN),
    Measure("interrupts", "interrupts per request", PURPLE),
    Measure("received_softirqs", "NET_RX softirqs per request", SKY),
)


def work_per_request(study: Study, *conditions: str) -> Figure:
    """Medians of the undisturbed runs of these conditions; one panel per measure, each with an axis
    of its own. Counters are those of the whole machine, so they include the load generator."""
    some = chosen(study, conditions)
    if not some:
        return nothing(TITLE, NO_RUNS)
    figure = make_subplots(
        rows=len(MEASURES), cols=1, vertical_spacing=_spacing(len(some)), shared_xaxes=False
    )
    for place, measure in enumerate(MEASURES, start=1):
        _panel(figure, place, measure, some)
    return dressed(
        figure,
        title=TITLE,
        caption=f"{where(study, some)}<br>medians of the undisturbed runs; {COUNTERS}",
        height=FRAME_PX + len(MEASURES) * (ROW_PX * len(some) + HEADING_PX),
        tell=_tell(some),
        table=DataFrame(
            [
                {"condition": one.condition, **{m.words: _value(one, m) for m in MEASURES}}
                for one in some
            ]
        ),
    ).update_layout(margin_l=LEFT_PX, showlegend=False)


def _spacing(count: int) -> float:
    """The share of the plot's height between two panels."""
    return HEADING_PX / (len(MEASURES) * (ROW_PX * count + HEADING_PX))


def _panel(figure: Figure, place: int, measure: Measure, chosen: Sequence[Repeated]) -> None:
    """The bars of one measure, each with its condition and value above it."""
    where = {"row": place, "col": 1}
    values = [_value(one, measure) for one in chosen]
    middles = [ROW_PX * number + NAME_PX + BAR_PX / 2 for number in range(len(chosen))]
    figure.add_trace(
        Bar(
            x=values,
            y=middles,
            orientation="h",
            width=BAR_PX,
            name=measure.words,
            marker={"color": measure.colour},
            text=[one.condition for one in chosen],
            textposition="none",
            hovertemplate="%{text}: %{x:.3g}<extra>" + measure.words + "</extra>",
        ),
        **where,
    )
    figure.add_annotation(
        x=0,
        xref="x domain",
        y=1,
        yref="y domain",
        text=f"<b>{measure.words}</b>",
        showarrow=False,
        xanchor="left",
        yanchor="bottom",
        **where,
    )
    for one, value, middle in zip(chosen, values, middles, strict=True):
        figure.add_annotation(
            x=0,
            xref="x domain",
            y=middle - BAR_PX / 2 - NAME_PX,
            text=f"{one.condition}: <b>{_words(value)}</b>",
            showarrow=False,
            xanchor="left",
            yanchor="top",
            font={"size": 12},
            **where,
        )
    longest = max((value for value in values if value is not None), default=0)
    figure.update_xaxes(visible=False, range=[0, (longest or 1) * 1.02], **where)
    figure.update_yaxes(visible=False, range=[ROW_PX * len(chosen), 0], **where)


def _value(one: Repeated, measure: Measure) -> float | None:
    """The median of a measure; None for a server that does not report it."""
    values = one.column(measure.column)
    return median(values) if values else None


def _words(value: float | None) -> str:
    return "unknown" if value is None else in_three_digits(value)


def _tell(chosen: Sequence[Repeated]) -> str:
    said = [
        f"{one.condition}: "
        + ", ".join(f"{measure.words} {_words(_value(one, measure))}" for measure in MEASURES)
        for one in chosen
    ]
    return f"{TITLE}. {'; '.join(said)}."
