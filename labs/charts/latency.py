"""How long things took, as shares: time per request, and time to the acknowledgment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import floor, log10
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy
from plotly.graph_objects import Figure, Scatter

from labs.analysis.words import in_three_digits
from labs.charts.log_ticks import log_ticks
from labs.charts.origin import Source, where_from
from labs.charts.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    dressed,
    nothing,
)

if TYPE_CHECKING:
    from pandas import DataFrame

Times: TypeAlias = numpy.ndarray[Any, numpy.dtype[numpy.float64]]
# Lines differ in dashes too, so that they can be told apart without colours.
LOOKS = ((VERMILION, "solid"), (BLUE, "dash"), (GREEN, "dot"), (ORANGE, "dashdot"),
         (PURPLE, "longdash"), (SKY, "longdashdot"), (BLACK, "solid"))
MOST_POINTS = 1000
DELAYED_ACK_MS = {"40 ms, the shortest delay of an ACK": 40.0, "200 ms, the longest": 200.0}
LEAST_MS = 1e-3
WITHIN_STRIP = 0.7
"""Where in the strip of times without meaning these are drawn, as a share of its upper end."""


def latency(series: Mapping[str, Iterable[float]], *, source: Source = "",
            title: str = "Time per request", quantity: str = "time per request, ms",
            lines_ms: Mapping[str, float] | None = None, below_ms: float | None = None) -> Figure:
    """The share of requests that took no longer than a time, for several series.

    `series` are names and times in ms; NaN is left out, and the legend gives each median. The time
    axis is logarithmic and reaches from the shortest time to the longest. `lines_ms` are named
    times to compare with. Times below `below_ms` are drawn at one place, in a shaded strip, and
    have no figure: on virtual time, where work takes none, they mean nothing below 1 ms.
    """
    known = {name: numpy.sort(_known(values)) for name, values in series.items()}
    known = {name: values for name, values in known.items() if len(values)}
    if not known:
        return nothing(title, "there is nothing to show: no request was answered")
    if min(float(values[0]) for values in known.values()) >= (below_ms or 0.0):
        below_ms = None
    figure = Figure()
    for (name, values), (colour, dash) in zip(known.items(), _looks(len(known)), strict=True):
        _steps(figure, name, values, below_ms or 0.0, colour, dash)
    low, high = _reach([*known.values(), numpy.array([*(lines_ms or {}).values()])], below_ms)
    for number, (words, ms) in enumerate((lines_ms or {}).items()):
        _line(figure, words, ms, number)
    ticks = {tick: f"{tick:g}" for tick in log_ticks(max(low, below_ms or low), high)}
    if below_ms is not None:
        _shade(figure, low, below_ms, len(lines_ms or {}))
        ticks = {below_ms * WITHIN_STRIP: f"< {below_ms:g}", **ticks}
    figure.update_xaxes(type="log", title=quantity, range=[log10(low), log10(high)],
                        tickvals=list(ticks), ticktext=list(ticks.values()))
    figure.update_yaxes(title="share, %", range=[0, 102])
    figure.update_layout(legend={"x": 1.01, "xanchor": "left", "y": 1, "yanchor": "top"})
    return dressed(figure, title=title, caption=where_from(source), height=430)


def time_to_ack(series: Mapping[str, DataFrame], *, direction: int | None = 1,
                source: Source = "", below_ms: float | None = None) -> Figure:
    """The share of segments that were acknowledged within a time, for several captures.

    `series` are names and tables of `labs.analysis.acks.time_to_ack`; `direction` is whose
    segments: 1 those of the side that was asked, 0 the opener's, None both.
    """
    chosen = {name: table if direction is None else table[table["direction"] == direction]
              for name, table in series.items()}
    return latency({name: table["ms"] for name, table in chosen.items()}, source=source,
                   title="Time to the acknowledgment of a segment", below_ms=below_ms,
                   quantity="from the segment to the ACK that covers it, ms",
                   lines_ms=DELAYED_ACK_MS)


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


def _steps(figure: Figure, name: str, values: Times, below_ms: float, colour: str, dash: str
           ) -> None:
    share = 100 * numpy.arange(1, len(values) + 1) / len(values)
    kept = numpy.unique(numpy.linspace(0, len(values) - 1, min(len(values), MOST_POINTS))
                        .round().astype(int))
    places = numpy.where(values < below_ms, below_ms * WITHIN_STRIP, values)
    said = [_words(value, below_ms) for value in values[kept]]
    figure.add_trace(Scatter(
        x=[float(places[0]), *places[kept].tolist()], y=[0.0, *share[kept].tolist()], mode="lines",
        name=f"{name}<br>median {_words(float(numpy.median(values)), below_ms)}, "
             f"n = {len(values):,}",
        text=[said[0], *said], line={"color": colour, "dash": dash, "width": 2.5, "shape": "hv"},
        hovertemplate=f"{name}: %{{y:.1f}} % within %{{text}}<extra></extra>"))


def _words(value: float, below_ms: float) -> str:
    return f"below {below_ms:g} ms" if value < below_ms else f"{in_three_digits(value)} ms"


def _line(figure: Figure, words: str, ms: float, number: int) -> None:
    figure.add_vline(x=ms, line={"color": GREY, "dash": "dot", "width": 1.5})
    figure.add_annotation(x=log10(ms), y=1, yref="paper", text=words, showarrow=False,
                          xanchor="right", yanchor="bottom", yshift=15 * number,
                          font={"size": 12, "color": GREY})


def _shade(figure: Figure, low: float, high: float, above: int) -> None:
    figure.add_vrect(x0=low, x1=high, fillcolor=GREY, opacity=0.12, line_width=0, layer="below")
    figure.add_annotation(x=log10(low), y=1, yref="paper", showarrow=False, xanchor="left",
                          yanchor="bottom", yshift=15 * above, font={"size": 12, "color": GREY},
                          text=f"times below {high:g} ms are not meaningful in virtual time")
