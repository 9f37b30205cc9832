"""Load and latency: an open loop at several rates, a closed loop, and what the theory predicts."""

from __future__ import annotations

from collections.abc import Sequence

from pandas import DataFrame
from plotly.graph_objects import Figure, Scatter

from labs.experiments.stack.charts.distribution import in_unit, latency_axis
from labs.experiments.stack.open_loop import Loop, Server, loops, server
from labs.read.display.provenance import of_table
from labs.read.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    LEGEND_ABOVE,
    NO_RUNS,
    ORANGE,
    dressed,
    nothing,
)
from labs.read.study import Study

TITLE = "Load and latency"
STEPS = 120
"""Points of each predicted curve."""
ROOM = 1.08
"""The end of the axis, as a multiple of the largest rate."""
MEASURES = (("median", BLUE, "circle", 50.0), ("99th percentile", ORANGE, "diamond", 99.0))


def load_and_latency(study: Study) -> Figure:
    """The latency of an open loop by rate, and of a closed loop with the same server.

    Dashed and dotted: predicted from the capacity. The closed loop is drawn at the rate that it
    reaches. It cannot exceed the capacity, because each connection waits for its response.
    """
    found, one = loops(study.repeated), server(study.repeated)
    if not found or one is None:
        return nothing(TITLE, f"{NO_RUNS}; the closed loop is needed for the prediction")
    end = ROOM * max(one.limit_per_s, *(each.rate_per_s for each in found))
    figure = Figure()
    for words, colour, symbol, percent in MEASURES:
        figure.add_trace(_predicted(one, end, words, colour, percent))
        for closed in (False, True):
            figure.add_trace(_measured(found, words, colour, symbol, closed=closed))
    figure.add_trace(_at_random(one, end))
    figure.add_trace(_predicted_closed(one))
    latency_axis(figure)
    figure.update_xaxes(title="requests per second", range=[0, end], tickformat=",")
    _limit(figure, one.capacity_per_s, "capacity ", "right")
    _limit(figure, one.limit_per_s, " plain limit", "left")
    figure.update_layout(legend=LEGEND_ABOVE)
    table = study.results()
    shown = table[table["condition"].isin([each.condition for each in found])]
    return dressed(
        figure,
        title=TITLE,
        caption=f"{of_table(shown)}<br>{_caption(one)}",
        height=520,
        tell=_tell(found, one),
        table=DataFrame([_row(each, one) for each in found]),
    )


def _measured(
    found: Sequence[Loop], words: str, colour: str, symbol: str, *, closed: bool
) -> Scatter:
    rows = [one for one in found if (one.rate_per_s == 0) is closed]
    latencies = [one.p50_us if words == "median" else one.p99_us for one in rows]
    return Scatter(
        x=[one.responses_per_s if closed else one.rate_per_s for one in rows],
        y=latencies,
        mode="markers",
        name=f"{'closed' if closed else 'open'} loop, {words}",
        showlegend=True,
        marker={
            "color": colour,
            "size": 11,
            "symbol": f"{symbol}-open" if closed else symbol,
            "line": {"width": 2, "color": colour},
        },
        text=[f"{one.condition}: {in_unit(us)}" for one, us in zip(rows, latencies, strict=True)],
        hovertemplate="%{text}<extra>" + words + "</extra>",
    )


def _rates(end: float) -> list[float]:
    return [end * step / STEPS for step in range(1, STEPS + 1)]


def _predicted(one: Server, end: float, words: str, colour: str, percent: float) -> Scatter:
    rates = _rates(end)
    return Scatter(
        x=rates,
        y=[one.evenly_spaced_us(rate, percent) for rate in rates],
        mode="lines",
        name="predicted for even intervals",
        legendgroup="even intervals",
        showlegend=percent == MEASURES[0][3],
        line={"color": colour, "dash": "dash", "width": 1.5},
        hoverinfo="skip",
    )


def _at_random(one: Server, end: float) -> Scatter:
    curve = {rate: one.random_moments_us(rate) for rate in _rates(end)}
    known = {rate: us for rate, us in curve.items() if us is not None}
    return Scatter(
        x=list(known),
        y=list(known.values()),
        mode="lines",
        name="predicted for random moments, mean",
        showlegend=True,
        line={"color": GREY, "dash": "dot", "width": 2},
        hoverinfo="skip",
    )


def _predicted_closed(one: Server) -> Scatter:
    return Scatter(
        x=[one.limit_per_s],
        y=[one.closed_loop_us],
        mode="markers",
        name="predicted for the closed loop",
        showlegend=True,
        marker={
            "color": GREEN,
            "symbol": "x-thin",
            "size": 12,
            "line": {"width": 2.5, "color": GREEN},
        },
        hovertemplate=f"{in_unit(one.closed_loop_us)}<extra>predicted, closed loop</extra>",
    )


def _limit(figure: Figure, rate: float, words: str, anchor: str) -> None:
    figure.add_vline(x=rate, line={"color": BLACK, "dash": "dot", "width": 1})
    figure.add_annotation(
        x=rate,
        y=0,
        yref="paper",
        text=words,
        showarrow=False,
        xanchor=anchor,
        yanchor="bottom",
        font={"size": 12},
    )


def _caption(one: Server) -> str:
    return (
        f"plain limit: {one.limit_per_s:,.0f} requests per second (WORK_US = {one.work_us}); "
        f"capacity: {one.capacity_per_s:,.0f}, measured in the closed loop; "
        f"{one.service_us:.0f} µs per request"
    )


def _tell(found: Sequence[Loop], one: Server) -> str:
    said = [
        f"{each.condition}: median {in_unit(each.p50_us)}, 99th percentile {in_unit(each.p99_us)}"
        for each in found
    ]
    return f"{TITLE}: {_caption(one)}. {'; '.join(said)}."


def _row(each: Loop, one: Server) -> dict[str, object]:
    rate = each.rate_per_s
    predicted = [
        one.evenly_spaced_us(rate, percent) if rate else one.closed_loop_us
        for _, _, _, percent in MEASURES
    ]
    return {
        "condition": each.condition,
        "intended per second": rate or None,
        "responses per second": round(each.responses_per_s),
        "median": in_unit(each.p50_us),
        "median, predicted": in_unit(predicted[0]),
        "99th percentile": in_unit(each.p99_us),
        "99th percentile, predicted": in_unit(predicted[1]) if rate else "",
    }
