"""Charts of runs with several flows: goodput and windows over time, the queue over time, delay
against goodput, and the phase of two windows."""

from __future__ import annotations

from collections.abc import Sequence
from math import atan2, cos, log10, pi, sin, sqrt
from typing import TYPE_CHECKING

import numpy
from pandas import DataFrame, concat
from plotly.graph_objects import Figure, Scatter

from labs.drive.units import SECOND_NS
from labs.errors import BadInput
from labs.read.display.format import in_three_digits
from labs.read.display.provenance import of_table
from labs.read.figures.small_multiples import COLOURS, DASHES
from labs.read.figures.style import (
    BLACK,
    GREY,
    LEGEND_ABOVE,
    dressed,
    log_ticks,
    log_title,
    nothing,
)
from labs.read.readings import bottleneck
from labs.read.readings.flows import begin_ns, downward, over_time, sockets, steady_ns, traffic_of

if TYPE_CHECKING:
    from labs.read.runs.run import Run

WINDOW_S = 0.5
"""The windows whose goodput and delay are compared."""
MOST_LINES = 8
"""The most flows that are drawn with a line of their own."""
ELLIPSE_POINTS = 60
LEAST_DELAY_MS = 0.1
"""A delay that is drawn for an empty queue on a logarithmic axis."""
ROWS = 12
"""The rows of a table of a line over time."""


def path_words(run: Run) -> str:
    """The path of a run in words: `20 Mbit/s, 40 ms, pfifo of 1 BDP`."""
    path = traffic_of(run).path
    queue, rate = path.queue("down"), path.down.rate_mbit
    said = [f"{rate:g} Mbit/s" if rate else "no rate limit", f"RTT {path.rtt_ms:g} ms"]
    if queue is not None:
        size = queue.packets and f"{queue.packets} packets"
        size = size or (queue.size_bytes and f"{queue.size_bytes:,} bytes")
        said.append(f"{queue.kind}{f' of {size}' if size else ''}{', ECN' if queue.ecn else ''}")
    return ", ".join(said)


def caption_of(*runs: Run) -> str:
    """The caption of a chart of runs: testbed, kernel and path of each. What a run's link says is
    about its wires only."""
    paths = dict.fromkeys(path_words(run) for run in runs)
    kernels = dict.fromkeys(f"Linux {run.kernel.release}" for run in runs)
    testbeds = dict.fromkeys(run.testbed for run in runs)
    return " · ".join([", ".join(testbeds), ", ".join(kernels), f"path: {'; '.join(paths)}"])


def goodput(run: Run, step_s: float = 0.5) -> Figure:
    """The goodput of each flow over time, and the rate that an equal share would be."""
    table, traffic = over_time(run, step_s), traffic_of(run)
    figure = _lines(table, "goodput_mbit", "%{y:.2f} Mbit/s")
    rate = traffic.path.down.rate_mbit
    flows = len(downward(run))
    if rate and flows > 1:
        figure.add_hline(y=rate / flows, line={"color": GREY, "dash": "dot", "width": 1})
    figure.update_yaxes(title="goodput (Mbit/s)", rangemode="tozero")
    means = [f"{one.name} {in_three_digits(one.mbit(*steady_ns(run)))}" for one in downward(run)]
    return _over_time(
        figure,
        run,
        f"Goodput per flow: {run.condition}",
        f"Goodput in steady state, in Mbit/s: {', '.join(means)}.",
        _spread(table, "goodput_mbit", "goodput, Mbit/s"),
    )


def windows(run: Run) -> Figure:
    """The congestion window of each flow over time: the phases of their sawtooths."""
    samples = sockets(run)
    if samples.empty:
        return nothing(f"Congestion windows: {run.condition}", "the run has no samples")
    table = samples[["t_s", "flow", "snd_cwnd_segments"]].dropna()
    figure = _lines(table, "snd_cwnd_segments", "%{y} segments")
    figure.update_yaxes(title="congestion window (segments)", rangemode="tozero")
    largest = table.groupby("flow")["snd_cwnd_segments"].max()
    return _over_time(
        figure,
        run,
        f"Congestion windows: {run.condition}",
        "Largest windows, in segments: "
        + ", ".join(f"{name} {int(size)}" for name, size in largest.items())
        + ".",
        _spread(table, "snd_cwnd_segments", "window, segments"),
    )


def queue(*runs: Run, direction: str = "down") -> Figure:
    """The delay in the queue over time, one line per run, on a logarithmic axis."""
    title = "Delay in the queue"
    parts = [
        bottleneck.over_time(run, direction).assign(flow=run.condition)
        for run in runs
        if bottleneck.queue_host(run, direction)
    ]
    if not parts:
        return nothing(title, "none of these runs has a queue")
    table = concat(parts, ignore_index=True)
    drawn = table.assign(delay_ms=table["delay_ms"].clip(lower=LEAST_DELAY_MS))
    figure = _lines(drawn, "delay_ms", "%{y:.1f} ms")
    ticks = log_ticks(LEAST_DELAY_MS, max(1.0, float(drawn["delay_ms"].max())))
    figure.update_yaxes(title=log_title("delay (ms)"), type="log", tickvals=ticks)
    medians = [
        f"{run.condition} {in_three_digits(float(numpy.median(delays)))}"
        for run in runs
        if (delays := bottleneck.delays_ms(run, direction))
    ]
    return _over_time(
        figure,
        runs[0],
        title if len(runs) > 1 else f"{title}: {runs[0].condition}",
        f"Median delay in steady state, in ms: {', '.join(medians)}. "
        f"An empty queue is drawn at {LEAST_DELAY_MS:g} ms.",
        _spread(table, "delay_ms", "delay, ms"),
        caption=caption_of(*runs),
    )


def latency_against_throughput(*runs: Run) -> Figure:
    """One ellipse per run: the delay in the queue and the goodput of windows of half a second in
    steady state, at one standard deviation of the goodput and of the logarithm of the delay. Better
    is right and down."""
    title = "Delay against goodput"
    figure, rows = Figure(), []
    for place, run in enumerate(runs):
        goodputs, delays = _windows_of(run)
        if len(goodputs) < 3:
            continue
        colour = COLOURS[place % len(COLOURS)]
        logs = [log10(max(delay, LEAST_DELAY_MS)) for delay in delays]
        x, y = _ellipse(goodputs, logs)
        middle = (float(numpy.mean(goodputs)), float(10 ** numpy.mean(logs)))
        figure.add_trace(
            Scatter(
                x=x,
                y=[10**one for one in y],
                mode="lines",
                fill="toself",
                opacity=0.5,
                line={"color": colour, "width": 2},
                name=run.condition,
                legendgroup=run.condition,
                hoverinfo="skip",
            )
        )
        figure.add_trace(
            Scatter(
                x=[middle[0]],
                y=[middle[1]],
                mode="markers",
                marker={"color": colour, "size": 9},
                legendgroup=run.condition,
                showlegend=False,
                hovertemplate="%{x:.2f} Mbit/s, %{y:.1f} ms<extra>" + run.condition + "</extra>",
            )
        )
        spreads = (float(numpy.std(goodputs)), float(10 ** numpy.std(logs)))
        rows.append((run.condition, *middle, *spreads))
    if not rows:
        return nothing(title, "none of these runs has a steady state")
    figure.update_xaxes(title="goodput (Mbit/s)")
    ticks = log_ticks(LEAST_DELAY_MS, 10 * max(y for _, _, y, *_ in rows))
    title_y = log_title("delay in the queue (ms)")
    figure.update_yaxes(title=title_y, type="log", tickvals=ticks)
    figure.update_layout(legend=LEGEND_ABOVE)
    said = "; ".join(f"{name} {x:.1f} Mbit/s, {y:.1f} ms" for name, x, y, *_ in rows)
    heads = ("condition", "goodput, Mbit/s", "delay, ms", "its spread, Mbit/s", "its spread, times")
    return dressed(
        figure,
        title=title,
        caption=f"{caption_of(*runs)}<br>windows of {WINDOW_S:g} s; one standard deviation",
        height=460,
        tell=f"Means: {said}.",
        table=DataFrame(rows, columns=list(heads)),
    )


def phase(run: Run) -> Figure:
    """The windows of two flows against each other: losses of both go towards the origin, losses of
    one go along its axis, and growth of both goes up at 45 degrees."""
    title = f"Phase of two windows: {run.condition}"
    names = [one.name for one in downward(run)][:2]
    if len(names) < 2:
        raise BadInput(f"{run.condition} has one flow. Allowed: a run with two")
    samples = sockets(run)
    first, second = (
        samples[samples["flow"] == name][["at_ns", "snd_cwnd_segments"]].dropna() for name in names
    )
    both = first.merge(second, on="at_ns", suffixes=("_first", "_second"))
    begin = begin_ns(run)
    from_s = (steady_ns(run)[0] - begin) / SECOND_NS
    both = both[(both["at_ns"] - begin) / SECOND_NS >= from_s]
    if both.empty:
        return nothing(title, "the flows were not sampled at the same moments")
    x, y = both["snd_cwnd_segments_first"].tolist(), both["snd_cwnd_segments_second"].tolist()
    most = max(*x, *y)
    figure = Figure(
        [
            Scatter(
                x=x,
                y=y,
                mode="lines+markers",
                line={"color": COLOURS[0], "width": 1},
                marker={"size": 4},
                name="windows",
                hovertemplate="%{x}, %{y} segments<extra></extra>",
            ),
            Scatter(
                x=[0, most],
                y=[0, most],
                mode="lines",
                line={"color": GREY, "dash": "dot"},
                name="equal windows",
                hoverinfo="skip",
            ),
        ]
    )
    figure.update_xaxes(title=f"window of {names[0]} (segments)", rangemode="tozero")
    figure.update_yaxes(title=f"window of {names[1]} (segments)", rangemode="tozero")
    figure.update_layout(legend=LEGEND_ABOVE)
    return dressed(
        figure,
        title=title,
        caption=caption_of(run),
        height=460,
        tell=f"Steady state: the mean windows are {in_three_digits(float(numpy.mean(x)))} and "
        f"{in_three_digits(float(numpy.mean(y)))} segments.",
        table=DataFrame({names[0]: x, names[1]: y}).iloc[:: max(1, len(x) // ROWS)],
    )


def shares(table: DataFrame, over: str, over_title: str, *, title: str, fair_pct: float) -> Figure:
    """The share of the first flows against a column of results on a logarithmic axis: measured,
    predicted, and an equal share; one line per kernel."""
    rows = table[table["share_pct"].notna() & table[over].notna()].sort_values(over)
    if rows.empty:
        return nothing(title, "none of these runs has several flows")
    figure = Figure()
    for place, (kernel, own) in enumerate(rows.groupby("kernel", sort=False)):
        figure.add_trace(
            Scatter(
                x=own[over].tolist(),
                y=own["share_pct"].tolist(),
                mode="lines+markers",
                name=f"measured, Linux {kernel}",
                line={"color": COLOURS[place % len(COLOURS)], "dash": DASHES[place % len(DASHES)]},
                marker={"size": 9},
                hovertemplate="%{x:g}: %{y:.1f} %<extra>%{fullData.name}</extra>",
            )
        )
    known = rows[rows["predicted_share_pct"].notna()].drop_duplicates(over)
    if not known.empty:
        figure.add_trace(
            Scatter(
                x=known[over].tolist(),
                y=known["predicted_share_pct"].tolist(),
                mode="lines+markers",
                name="predicted",
                line={"color": BLACK, "dash": "dash", "width": 1},
                marker={"symbol": "diamond-open", "size": 9},
                hovertemplate="%{x:g}: %{y:.1f} %<extra>predicted</extra>",
            )
        )
    figure.add_hline(y=fair_pct, line={"color": GREY, "dash": "dot", "width": 1})
    ticks = sorted(set(rows[over].round(3)))
    words = [f"{tick:.2g}" for tick in ticks]
    figure.update_xaxes(title=log_title(over_title), type="log", tickvals=ticks, ticktext=words)
    figure.update_yaxes(title="share of the goodput (%)", range=[0, 103])
    figure.update_layout(legend=LEGEND_ABOVE)
    said = "; ".join(
        f"{row[over]:.3g}: {row['share_pct']:.3g} % (predicted {row['predicted_share_pct']:.3g})"
        for row in rows.to_dict("records")
    )
    heads = {
        over: over_title,
        "kernel": "Linux",
        "share_pct": "share, %",
        "predicted_share_pct": "predicted, %",
    }
    return dressed(
        figure,
        title=title,
        caption=of_table(rows),
        height=440,
        tell=f"Share by {over_title}: {said}.",
        table=rows[list(heads)].rename(columns=heads),
    )


def _lines(table: DataFrame, column: str, hover: str) -> Figure:
    """A line over time per value of `flow`; of many flows a colour per congestion control."""
    names = list(dict.fromkeys(table["flow"]))
    many = len(names) > MOST_LINES
    kinds = list(dict.fromkeys(str(name).rpartition(" ")[2] for name in names))
    figure = Figure()
    shown: set[str] = set()
    for number, name in enumerate(names):
        own = table[table["flow"] == name]
        kind = str(name).rpartition(" ")[2]
        place = kinds.index(kind) if many else number
        figure.add_trace(
            Scatter(
                x=own["t_s"].round(4).tolist(),
                y=own[column].round(4).tolist(),
                mode="lines",
                name=kind if many else str(name),
                opacity=0.6 if many else 1.0,
                showlegend=not many or kind not in shown,
                line={
                    "color": COLOURS[place % len(COLOURS)],
                    "dash": DASHES[place // len(COLOURS) % len(DASHES)],
                    "width": 1.5,
                },
                hovertemplate=f"{hover} at %{{x:.1f}} s<extra>{name}</extra>",
            )
        )
        shown.add(kind)
    return figure


def _over_time(
    figure: Figure, run: Run, title: str, tell: str, table: DataFrame, caption: str | None = None
) -> Figure:
    figure.update_xaxes(title="time (s)")
    figure.update_layout(legend=LEGEND_ABOVE, showlegend=True)
    return dressed(
        figure, title=title, caption=caption or caption_of(run), height=400, tell=tell, table=table
    )


def _spread(table: DataFrame, column: str, head: str) -> DataFrame:
    """Some moments of each line as a table."""
    parts = []
    for _, own in table.groupby("flow", sort=False):
        parts.append(own.iloc[:: max(1, len(own) // ROWS)][["t_s", "flow", column]])
    shown = concat(parts[:MOST_LINES], ignore_index=True)
    return shown.rename(columns={"t_s": "time, s", column: head})


def _windows_of(run: Run) -> tuple[list[float], list[float]]:
    """The goodput of all flows down and the mean delay in the queue, per window of the steady
    state."""
    from_ns, until_ns = steady_ns(run)
    table, begin = bottleneck.over_time(run), begin_ns(run)
    length_ns = WINDOW_S * SECOND_NS
    goodputs, delays = [], []
    at = from_ns
    while at + length_ns <= until_ns:
        from_s, until_s = (at - begin) / SECOND_NS, (at + length_ns - begin) / SECOND_NS
        inside = table[(table["t_s"] >= from_s) & (table["t_s"] < until_s)]
        if not inside.empty:
            goodputs.append(sum(one.mbit(at, at + length_ns) for one in downward(run)))
            delays.append(float(inside["delay_ms"].mean()))
        at += length_ns
    return goodputs, delays


def _ellipse(x: Sequence[float], y: Sequence[float]) -> tuple[list[float], list[float]]:
    """The ellipse of one standard deviation of two correlated quantities."""
    (xx, xy), (_, yy) = numpy.cov(x, y).tolist()
    spread = sqrt(((xx - yy) / 2) ** 2 + xy**2)
    long, short = (sqrt(max(0.0, (xx + yy) / 2 + sign * spread)) for sign in (1, -1))
    turn = atan2(2 * xy, xx - yy) / 2
    middle = float(numpy.mean(x)), float(numpy.mean(y))
    at = [2 * pi * step / ELLIPSE_POINTS for step in range(ELLIPSE_POINTS + 1)]
    return (
        [middle[0] + long * cos(t) * cos(turn) - short * sin(t) * sin(turn) for t in at],
        [middle[1] + long * cos(t) * sin(turn) + short * sin(t) * cos(turn) for t in at],
    )
