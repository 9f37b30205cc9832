"""Distributions of times, cumulative and in even steps: per request, and until a segment is
acknowledged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import count, cycle
from math import floor, log10
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy
from pandas import DataFrame, concat

from labs.read.display.format import in_three_digits
from labs.read.figures.axes import Axis
from labs.read.figures.lines import LOOKS, Lines
from labs.read.figures.marks import Mark
from labs.read.figures.style import GREY, Source, log_ticks, where_from

if TYPE_CHECKING:
    from pandas import Series
    from plotly.graph_objects import Figure

Times: TypeAlias = numpy.ndarray[Any, numpy.dtype[numpy.float64]]
MOST_POINTS = 1000
DELAYED_ACK_MS = {
    "40 ms: shortest delay of an ACK (TCP_ATO_MIN)": 40.0,
    "200 ms: longest (TCP_DELACK_MAX)": 200.0,
}
LEAST_MS = 1e-3
SERVER = 1
"""The direction of the server's segments."""
MEANINGLESS = "times below {ms:g} ms are not meaningful in virtual time"
QUANTILES = {"10 %": 0.1, "median": 0.5, "90 %": 0.9, "99 %": 0.99, "longest": 1.0}
WITHIN_STRIP = 0.7
"""Where in the strip of times without meaning these are drawn, as a share of its upper end."""
MIDDLE, SHARE = "middle", "share_pct"
"""The columns of a table of steps."""


def latency(
    series: Mapping[str, Iterable[float]],
    *,
    source: Source = "",
    title: str = "Time per request",
    quantity: str = "time per request",
    lines_ms: Mapping[str, float] | None = None,
    below_ms: float | None = None,
) -> Figure:
    """The share of requests that took no longer than a time, for several series.

    `series` are names and times in ms; NaN is left out, and the legend gives each median. The time
    axis is logarithmic and reaches from the shortest time to the longest. `lines_ms` are named
    times to compare with. Times below `below_ms` are drawn at one place, in a shaded strip, and
    have no figure: in virtual time, where computation takes none, they mean nothing below 1 ms.
    """
    times = {name: _measured(values) for name, values in series.items()}
    times = {name: values for name, values in times.items() if len(values)}
    least = below_ms or 0.0
    if all(float(values[0]) >= least for values in times.values()):
        least = 0.0
    marks = {words: ms for words, ms in (lines_ms or {}).items() if times}
    low, high = _reach([*times.values(), numpy.array([*marks.values()])], least)
    ticks = {tick: f"{tick:g}" for tick in log_ticks(max(low, least), high)}
    strip: tuple[Mark, ...] = ()
    if least:
        strip, ticks[least * WITHIN_STRIP] = (Mark(low, until=least, colour=GREY),), f"< {least:g}"
    looks = zip(times, cycle(LOOKS), strict=False)
    medians = {name: _words(float(numpy.median(values)), least) for name, values in times.items()}
    return Lines(
        title,
        rows=lambda shown: _steps(shown, least),
        empty="nothing to show: no request was answered",
        x=Axis("drawn_ms", quantity, "ms", log=True, ticks=ticks, range=(low, high)),
        y=Axis("share", "share", "%", range=(0, 102)),
        by="series",
        named={
            name: f"{name}: median {medians[name]}, n = {len(values):,}"
            for name, values in times.items()
        },
        looks={name: replace(look, width=2.5, shape="hv") for name, look in looks},
        mode="lines",
        marks=(*strip, *(Mark(ms, words) for words, ms in marks.items())),
        words=lambda row: f"{row['series']}: {row['share']:.1f} % within {row['words']}",
        caption=lambda rows: where_from(source),
        note=f"shaded: {MEANINGLESS.format(ms=least)}" if least else "",
        describe=lambda rows: _describe(title, times, least),
        table=lambda rows: _quantiles(times, least),
        height=258,
    )(times)


def time_to_ack(
    series: Mapping[str, DataFrame], *, source: Source = "", below_ms: float | None = None
) -> Figure:
    """The share of the server's segments that were acknowledged within a time, for several
    captures: names, and tables of `labs.read.flows.rtt.time_to_ack`."""
    return latency(
        {name: table["ms"][table["direction"] == SERVER] for name, table in series.items()},
        source=source,
        title="Time until a segment is acknowledged",
        below_ms=below_ms,
        quantity="time until the ACK",
        lines_ms=DELAYED_ACK_MS,
    )


def _measured(values: Iterable[float]) -> Times:
    given = numpy.fromiter(values, dtype=float)
    return numpy.sort(numpy.maximum(given[~numpy.isnan(given)], LEAST_MS))


def _reach(times: list[Times], least_ms: float) -> tuple[float, float]:
    """Both ends of the time axis: all times are between them."""
    every = numpy.concatenate(times)
    if not len(every):
        return 1.0, 10.0
    if not least_ms:
        return 10.0 ** floor(log10(every.min())), float(1.4 * every.max())
    return least_ms * WITHIN_STRIP**2, max(float(1.4 * every.max()), 10 * least_ms)


def _steps(times: Mapping[str, Times], least_ms: float) -> DataFrame:
    """The share of each series within a time, at up to MOST_POINTS times."""
    parts = []
    for name, values in times.items():
        count = len(values)
        places = numpy.linspace(0, count - 1, min(count, MOST_POINTS)).round().astype(int)
        kept = numpy.unique(places)
        chosen = numpy.concatenate([values[:1], values[kept]])
        drawn = numpy.where(chosen < least_ms, least_ms * WITHIN_STRIP, chosen)
        share = numpy.concatenate([[0.0], 100 * (kept + 1) / count])
        words = [_words(value, least_ms) for value in chosen]
        parts.append(DataFrame({"series": name, "drawn_ms": drawn, "share": share, "words": words}))
    return concat(parts, ignore_index=True) if parts else DataFrame()


def _words(value: float, below_ms: float) -> str:
    return f"below {below_ms:g} ms" if value < below_ms else f"{in_three_digits(value)} ms"


def _quantiles(times: Mapping[str, Times], below_ms: float) -> DataFrame:
    """Per series: how many times there are, and within which time some of them were."""
    table = DataFrame({"series": [*times], "number": [*map(len, times.values())]})
    for words, share in QUANTILES.items():
        values = (_words(float(numpy.quantile(each, share)), below_ms) for each in times.values())
        table[f"{words}, ms"] = [
            value.replace("below", "<").removesuffix(" ms") for value in values
        ]
    return table


def _describe(title: str, times: Mapping[str, Times], below_ms: float) -> str:
    """Each median, and the longest time."""
    phrases = [
        f"{name}: median {_words(float(numpy.median(values)), below_ms)}, longest "
        f"{_words(float(values[-1]), below_ms)}"
        for name, values in times.items()
    ]
    return f"{title}, as the share of times within each value. {'; '.join(phrases)}."


def in_steps(values: Series[float], step: float) -> DataFrame:
    """The share of the values in each step, in per cent of all values; those that are not known are
    in none, and a step without values has no share."""
    shares = 100 * (values.dropna() // step).astype(int).value_counts() / len(values)
    if shares.empty:
        return DataFrame(columns=[MIDDLE, SHARE])
    # With one more: of a single step nothing would say how wide it is.
    steps = range(min(shares.index), max(shares.index) + 2)
    middles = [(place + 0.5) * step for place in steps]
    return DataFrame({MIDDLE: middles, SHARE: shares.reindex(steps).to_numpy()})


def even_step(longest: float, most: int) -> float:
    """The width of a step: 1, or 2, 5, 10 and so on if there would be more steps than `most`."""
    return next(step for step in _widths() if longest < most * step)


def _widths() -> Iterator[float]:
    return (digit * 10.0**power for power in count() for digit in (1, 2, 5))
