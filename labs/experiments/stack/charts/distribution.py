"""The distribution of the latency up to the 99.99th percentile, and the axis of latencies."""

from __future__ import annotations

from math import log10

from pandas import DataFrame
from plotly.graph_objects import Figure, Scatter

from labs.errors import BadInput
from labs.experiments.stack.charts.chosen import chosen, where
from labs.experiments.stack.results import Latencies, merged
from labs.read.display.format import in_three_digits
from labs.read.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    LEGEND_ABOVE,
    NO_RUNS,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    dressed,
    log_ticks,
    log_title,
    nothing,
)
from labs.read.study import Study

TITLE = "Distribution of the latency"
LOOKS = (
    *((BLUE, "solid"), (VERMILION, "dash"), (GREEN, "dot"), (ORANGE, "dashdot")),
    *((PURPLE, "longdash"), (SKY, "longdashdot"), (BLACK, "solid")),
)
PERCENTILES = (0, 10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99)
TICKS = {50: "50 %", 90: "90 %", 99: "99 %", 99.9: "99.9 %", 99.99: "99.99 %"}
SECOND_US, MS_US = 1_000_000, 1000
ROOM = 1.6
FEWEST_SLOWER = 10
"""A percentile with fewer slower requests is not drawn, because its value depends on chance."""


def distribution(study: Study, *conditions: str) -> Figure:
    """The latency by percentile, over the requests of all repetitions together.

    Both axes are logarithmic; percentiles are placed by the share of slower requests. BadInput for
    more conditions than there are colours.
    """
    if len(conditions) > len(LOOKS):
        raise BadInput(
            f"{len(conditions)} conditions are too many for this chart, which shows at most "
            f"{len(LOOKS)}. Name fewer"
        )
    some = chosen(study, conditions)
    if not some:
        return nothing(TITLE, NO_RUNS)
    figure, rows, medians = Figure(), [], []
    for (colour, dash), one in zip(LOOKS[: len(some)], some, strict=True):
        total = merged(one.counted)
        points = {percent: total.percentile_us(percent) for percent in _shown(total)}
        figure.add_trace(
            Scatter(
                x=[100 / (100 - percent) for percent in points],
                y=list(points.values()),
                mode="lines+markers",
                name=f"{one.condition}, n = {total.requests:,}",
                showlegend=True,
                line={"color": colour, "dash": dash, "width": 2.5},
                marker={"color": colour, "size": 5},
                text=[f"{percent:g} %: {value:,.0f} µs" for percent, value in points.items()],
                hovertemplate="%{text}<extra>" + one.condition + "</extra>",
            )
        )
        medians.append(f"{one.condition}: {in_three_digits(total.percentile_us(50))} µs")
        rows.append(
            {
                "condition": one.condition,
                **{f"{percent:g} %": value for percent, value in points.items()},
            }
        )
    figure.update_xaxes(
        type="log",
        title="percentile (log scale of slower requests)",
        tickvals=[100 / (100 - percent) for percent in TICKS],
        ticktext=list(TICKS.values()),
    )
    latency_axis(figure)
    figure.update_layout(legend=LEGEND_ABOVE)
    return dressed(
        figure,
        title=TITLE,
        caption=f"{where(study, some)}<br>the requests of all undisturbed repetitions together",
        height=470,
        tell=f"{TITLE}. Medians: {'; '.join(medians)}.",
        table=DataFrame(rows),
    )


def _shown(total: Latencies) -> list[float]:
    count = max(total.requests, FEWEST_SLOWER + 1)
    most = 100 - 100 * FEWEST_SLOWER / count
    return [percent for percent in PERCENTILES if percent <= most]


def latency_axis(figure: Figure) -> None:
    """A logarithmic vertical axis that contains every latency of the figure."""
    every = [float(value) for trace in figure.data for value in trace.y if value is not None]
    low, high = min(every) / ROOM, max(every) * ROOM
    ticks = log_ticks(low, high)
    figure.update_yaxes(
        type="log",
        title=log_title("latency"),
        range=[log10(low), log10(high)],
        tickvals=ticks,
        ticktext=[in_unit(tick) for tick in ticks],
    )


def in_unit(us: float) -> str:
    """A latency in a suitable unit: 20 µs, 5 ms, 1.2 s."""
    if us >= SECOND_US:
        return f"{us / SECOND_US:.3g} s"
    return f"{us / MS_US:.3g} ms" if us >= MS_US else f"{us:.3g} µs"
