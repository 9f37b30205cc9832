"""Cumulative distributions of times: per request, and until a segment is acknowledged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import floor, log10
from typing import Any, TypeAlias

import numpy
from pandas import DataFrame
from plotly.graph_objects import Figure, Scatter

from labs.read.display.format import in_three_digits
from labs.read.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    Source,
    dressed,
    log_ticks,
    log_title,
    nothing,
    where_from,
)

Times: TypeAlias = numpy.ndarray[Any, numpy.dtype[numpy.float64]]
# Lines differ in dashes too, so that they can be told apart without colours.
LOOKS = (
    (VERMILION, "solid"),
    (BLUE, "dash"),
    (GREEN, "dot"),
    (ORANGE, "dashdot"),
    (PURPLE, "longdash"),
    (SKY, "longdashdot"),
    (BLACK, "solid"),
)
MOST_POINTS = 1000
DELAYED_ACK_MS = {
    "40 ms: shortest delay of an ACK (TCP_ATO_MIN)": 40.0,
    "200 ms: longest (TCP_DELACK_MAX)": 200.0,
}
LEAST_MS = 1e-3
MEANINGLESS = "times below {ms:g} ms are not meaningful in virtual time"
QUANTILES = {"10 %": 0.1, "median": 0.5, "90 %": 0.9, "99 %": 0.99, "longest": 1.0}
WITHIN_STRIP = 0.7
"""Where in the strip of times without meaning these are drawn, as a share of its upper end."""


def latency(
    series: Mapping[str, Iterable[float]],
    *,
    source: Source = "",
    title: str = "Time per request",
    quantity: str = "time per request, ms",
    lines_ms: Mapping[str, float] | None = None,
    below_ms: float | None = None,
) -> Figure:
    """The share of requests that took no longer than a time, for several series.

    `series` are names and times in ms; NaN is left out, and the legend gives each median. The time
    axis is logarithmic and reaches from the shortest time to the longest. `lines_ms` are named
    times to compare with. Times below `below_ms` are drawn at one place, in a shaded strip, and
    have no figure: in virtual time, where computation takes none, they mean nothing below 1 ms.
    """
    known = {name: numpy.sort(_known(values)) for name, values in series.items()}
    known = {name: values for name, values in known.items() if len(values)}
    if not known:
        return nothing(title, "nothing to show: no request was answered")
    if min(float(values[0]) for values in known.values()) >= (below_ms or 0.0):
        below_ms = None
    figure = Figure()
    for (name, values), (colour, dash) in zip(known.items(), _looks(len(known)), strict=True):
        _steps(figure, name, values, below_ms or 0.0, colour, dash)
    low, high = _reach([*known.values(), numpy.array([*(lines_ms or {}).values()])], below_ms)
    for words, ms in (lines_ms or {}).items():
        _line(figure, words, ms)
    ticks = {tick: f"{tick:g}" for tick in log_ticks(max(low, below_ms or low), high)}
    if below_ms is not None:
        figure.add_vrect(
            x0=low, x1=below_ms, fillcolor=GREY, opacity=0.12, line_width=0, layer="below"
        )
        ticks = {below_ms * WITHIN_STRIP: f"< {below_ms:g}", **ticks}
    figure.update_xaxes(
        type="log",
        title=log_title(quantity),
        range=[log10(low), log10(high)],
        tickvals=list(ticks),
        ticktext=list(ticks.values()),
    )
    figure.update_yaxes(title="share, %", range=[0, 102])
    figure.update_layout(legend={"x": 1.01, "xanchor": "left", "y": 1, "yanchor": "top"})
    strip = "" if below_ms is None else f"<br>shaded: {MEANINGLESS.format(ms=below_ms)}"
    return dressed(
        figure,
        title=title,
        caption=where_from(source) + strip,
        height=430,
        tell=_tell(title, known, below_ms or 0.0),
        table=_quantiles(known, below_ms or 0.0),
    )


def time_to_ack(
    series: Mapping[str, DataFrame],
    *,
    direction: int | None = 1,
    source: Source = "",
    below_ms: float | None = None,
) -> Figure:
    """The share of segments that were acknowledged within a time, for several captures.

    `series` are names and tables of `labs.read.flows.rtt.time_to_ack`; `direction` is whose
    segments: 1 the server's, 0 the client's, None both.
    """
    chosen = {
        name: table if direction is None else table[table["direction"] == direction]
        for name, table in series.items()
    }
    return latency(
        {name: table["ms"] for name, table in chosen.items()},
        source=source,
        title="Time until a segment is acknowledged",
        below_ms=below_ms,
        quantity="time until the ACK, ms",
        lines_ms=DELAYED_ACK_MS,
    )


def _known(values: Iterable[float]) -> Times:
    found = numpy.fromiter(values, dtype=float)
    known: Times = numpy.maximum(found[~numpy.isnan(found)], LEAST_MS)
    return known


def _reach(times: list[Times], below_ms: float | None) -> tuple[float, float]:
    """Both ends of the time axis: all times are between them."""
    every = numpy.concatenate(times)
    if below_ms is None:
        return 10.0 ** floor(log10(every.min())), float(1.4 * every.max())
    return below_ms * WITHIN_STRIP**2, max(float(1.4 * every.max()), 10 * below_ms)


def _looks(count: int) -> list[tuple[str, str]]:
    return [LOOKS[number % len(LOOKS)] for number in range(count)]


def _steps(
    figure: Figure, name: str, values: Times, below_ms: float, colour: str, dash: str
) -> None:
    share = 100 * numpy.arange(1, len(values) + 1) / len(values)
    kept = numpy.unique(
        numpy.linspace(0, len(values) - 1, min(len(values), MOST_POINTS)).round().astype(int)
    )
    places = numpy.where(values < below_ms, below_ms * WITHIN_STRIP, values)
    said = [_words(value, below_ms) for value in values[kept]]
    figure.add_trace(
        Scatter(
            x=[float(places[0]), *places[kept].tolist()],
            y=[0.0, *share[kept].tolist()],
            mode="lines",
            name=f"{name}<br>median {_words(float(numpy.median(values)), below_ms)}, "
            f"n = {len(values):,}",
            text=[said[0], *said],
            line={"color": colour, "dash": dash, "width": 2.5, "shape": "hv"},
            hovertemplate=f"{name}: %{{y:.1f}} % within %{{text}}<extra></extra>",
        )
    )


def _words(value: float, below_ms: float) -> str:
    return f"below {below_ms:g} ms" if value < below_ms else f"{in_three_digits(value)} ms"


def _digits(value: float, below_ms: float) -> str:
    return f"< {below_ms:g}" if value < below_ms else in_three_digits(value)


def _line(figure: Figure, words: str, ms: float) -> None:
    """A dotted line at a named time, with its number; the name is in the legend."""
    figure.add_trace(
        Scatter(
            x=[ms, ms],
            y=[0, 100],
            mode="lines",
            name=words,
            hoverinfo="skip",
            line={"color": GREY, "dash": "dot", "width": 1.5},
        )
    )
    figure.add_annotation(
        x=log10(ms),
        y=1,
        yref="paper",
        text=f"{ms:g} ms",
        showarrow=False,
        yanchor="bottom",
        font={"size": 12, "color": GREY},
    )


def _quantiles(known: Mapping[str, Times], below_ms: float) -> DataFrame:
    """Per series: how many times there are, and within which time some of them were."""
    return DataFrame(
        {
            "series": name,
            "number": len(values),
            **{
                f"{words}, ms": _digits(float(numpy.quantile(values, share)), below_ms)
                for words, share in QUANTILES.items()
            },
        }
        for name, values in known.items()
    )


def _tell(title: str, known: Mapping[str, Times], below_ms: float) -> str:
    """The text alternative: each median, and the longest time."""
    said = [
        f"{name}: median {_words(float(numpy.median(values)), below_ms)}, longest "
        f"{_words(float(values[-1]), below_ms)}"
        for name, values in known.items()
    ]
    return f"{title}, as the share of times within each value. {'; '.join(said)}."
