"""Figures of runs with several flows: goodput and windows over time, the queue over time, delay
against goodput, and the phase of two windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import atan2, cos, log10, pi, sin, sqrt
from typing import TYPE_CHECKING

import numpy
from pandas import DataFrame, concat

from labs.drive.units import SECOND_NS
from labs.errors import BadInput
from labs.read.display.format import in_three_digits
from labs.read.figures.axes import DIGITS, Axis
from labs.read.figures.lines import LOOKS, MEASURED, Lines, Prediction
from labs.read.figures.marks import Mark
from labs.read.figures.plot import Look
from labs.read.figures.style import GREY
from labs.read.readings import bottleneck
from labs.read.readings.flows import begin_ns, downward, over_time, sockets, steady_ns, traffic_of

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from labs.read.runs.run import Run

WINDOW_S = 0.5
"""The windows whose goodput and delay are compared."""
ELLIPSE_POINTS = 60
LEAST_DELAY_MS = 0.1
"""A delay that is drawn for an empty queue on a logarithmic axis."""
MOMENTS = 12
"""The rows of a table of a line over time."""
BOTH = ["snd_cwnd_segments_first", "snd_cwnd_segments_second"]
FEWEST_WINDOWS = 3
"""A run with fewer windows has no spread."""


def path_words(run: Run) -> str:
    """The path of a run in words: `20 Mbit/s, 40 ms, pfifo of 1 BDP`."""
    path = traffic_of(run).path
    queue, rate = path.queue("down"), path.down.rate_mbit
    phrases = [f"{rate:g} Mbit/s" if rate else "no rate limit", f"RTT {path.rtt_ms:g} ms"]
    if queue is not None:
        size = queue.packets and f"{queue.packets} packets"
        size = size or (queue.size_bytes and f"{queue.size_bytes:,} bytes")
        ecn = ", ECN" if queue.ecn else ""
        phrases.append(f"{queue.kind}{f' of {size}' if size else ''}{ecn}")
    return ", ".join(phrases)


def with_source(table: DataFrame, run: Run) -> DataFrame:
    """A table of a run with what a title and a caption say about the run."""
    return table.assign(
        condition=run.condition,
        testbed=run.testbed,
        kernel=run.kernel.release,
        path=path_words(run),
    )


def caption_of(rows: DataFrame) -> str:
    """The caption of a chart of runs: testbed, kernel and path of each. What a run's link says is
    about its wires only."""
    testbeds, kernels, paths = (dict.fromkeys(rows[name]) for name in ("testbed", "kernel", "path"))
    linux = ", ".join(f"Linux {kernel}" for kernel in kernels)
    return " · ".join([", ".join(testbeds), linux, f"path: {'; '.join(paths)}"])


def _titled(words: str) -> Callable[[DataFrame], str]:
    """A title with the condition, if the rows are of one."""

    def title(rows: DataFrame) -> str:
        names = [*dict.fromkeys(rows["condition"])] if len(rows) else []
        return f"{words}: {names[0]}" if len(names) == 1 else words

    return title


def _control_of(flow: object) -> str:
    return str(flow).rpartition(" ")[2]


def _per_flow(run: Run, step_s: float = 0.5) -> DataFrame:
    """The goodput of each flow over time, its mean in steady state, and an equal share."""
    flows, rate = downward(run), traffic_of(run).path.down.rate_mbit
    steady = {flow.name: flow.mbit(*steady_ns(run)) for flow in flows}
    table = with_source(over_time(run, step_s), run)
    equal_mbit = rate / len(flows) if rate and len(flows) > 1 else float("nan")
    return table.assign(steady_mbit=table["flow"].map(steady), equal_mbit=equal_mbit)


def _describe_goodput(rows: DataFrame) -> str:
    steady = rows.groupby("flow", sort=False)["steady_mbit"].first()
    means = ", ".join(f"{flow} {in_three_digits(mean)}" for flow, mean in steady.items())
    return f"Goodput in steady state, in Mbit/s: {means}."


goodput = Lines(
    _titled("Goodput per flow"),
    rows=_per_flow,
    x=Axis("t_s", "time"),
    y=Axis("goodput_mbit", begins_at_0=True),
    by="flow",
    kind_of=_control_of,
    mode="lines",
    marks=(Mark("equal_mbit", "an equal share", axis="y", width=1),),
    moments=MOMENTS,
    caption=caption_of,
    describe=_describe_goodput,
)


def _window_samples(run: Run) -> DataFrame:
    samples = sockets(run)
    columns = ["t_s", "flow", "snd_cwnd_segments"]
    return samples if samples.empty else with_source(samples[columns].dropna(), run)


def _describe_windows(rows: DataFrame) -> str:
    largest = rows.groupby("flow")["snd_cwnd_segments"].max()
    sizes = ", ".join(f"{flow} {int(size)}" for flow, size in largest.items())
    return f"Largest windows, in segments: {sizes}."


windows = Lines(
    _titled("Congestion windows"),
    rows=_window_samples,
    empty="the run has no samples",
    x=Axis("t_s", "time"),
    y=Axis("snd_cwnd_segments", "congestion window", "segments", begins_at_0=True),
    by="flow",
    kind_of=_control_of,
    mode="lines",
    moments=MOMENTS,
    caption=caption_of,
    describe=_describe_windows,
)


def _delays(*runs: Run, direction: str = "down") -> DataFrame:
    """The delay in the queue of each run over time, and its median in steady state."""
    parts = [
        with_source(bottleneck.over_time(run, direction), run).assign(
            median_ms=float(numpy.median(bottleneck.delays_ms(run, direction) or [numpy.nan]))
        )
        for run in runs
        if bottleneck.queue_host(run, direction)
    ]
    return concat(parts, ignore_index=True) if parts else DataFrame()


def _describe_delays(rows: DataFrame) -> str:
    medians = rows.groupby("condition", sort=False)["median_ms"].first().dropna()
    phrases = ", ".join(f"{name} {in_three_digits(median)}" for name, median in medians.items())
    return (
        f"Median delay in steady state, in ms: {phrases}. "
        f"An empty queue is drawn at {LEAST_DELAY_MS:g} ms."
    )


queue = Lines(
    _titled("Delay in the queue"),
    rows=_delays,
    empty="none of these runs has a queue",
    x=Axis("t_s", "time"),
    y=Axis("delay_ms", log=True, ticks=DIGITS, least=LEAST_DELAY_MS),
    by="condition",
    mode="lines",
    moments=MOMENTS,
    caption=caption_of,
    describe=_describe_delays,
)


def phase(run: Run) -> Figure:
    """The windows of two flows against each other: losses of both go towards the origin, losses of
    one go along its axis, and growth of both goes up at 45 degrees."""
    names = [flow.name for flow in downward(run)][:2]
    if len(names) < 2:
        raise BadInput(f"{run.condition} has one flow. Allowed: a run with two")

    across, up = (
        Axis(column, f"window of {name}", "segments", begins_at_0=True)
        for column, name in zip(BOTH, names, strict=True)
    )
    return Lines(
        f"Phase of two windows: {run.condition}",
        rows=lambda run: _both_windows(run, names),
        empty="the flows were not sampled at the same moments",
        x=across,
        y=up,
        in_order=False,
        predicted=Prediction(curve=_equal, name="equal windows", look=Look(GREY, "dot")),
        named="windows",
        looks={MEASURED: Look(LOOKS[0].colour, size=4, width=1)},
        moments=MOMENTS,
        caption=caption_of,
        describe=_describe_phase,
        height=288,
    )(run)


def _equal(rows: DataFrame) -> tuple[Sequence[float], Sequence[float]]:
    most = float(rows[BOTH].max().max())
    return [0, most], [0, most]


def _describe_phase(rows: DataFrame) -> str:
    means = map(in_three_digits, rows[BOTH].mean())
    return f"Steady state: the mean windows are {' and '.join(means)} segments."


def _both_windows(run: Run, names: Sequence[str]) -> DataFrame:
    """The windows of two flows at the same moments of the steady state."""
    samples = sockets(run)
    first, second = (
        samples[samples["flow"] == name][["at_ns", "snd_cwnd_segments"]].dropna() for name in names
    )
    both = first.merge(second, on="at_ns", suffixes=("_first", "_second"))
    return with_source(both[both["at_ns"] >= steady_ns(run)[0]], run)


def _compared(*runs: Run) -> DataFrame:
    """Per run: means of goodput and of the delay's logarithm in steady state, and how they vary."""
    rows = []
    for run in runs:
        goodputs, delays = _windows_of(run)
        if len(goodputs) >= FEWEST_WINDOWS:
            logs = [log10(max(delay, LEAST_DELAY_MS)) for delay in delays]
            (xx, xy), (_, yy) = numpy.cov(goodputs, logs).tolist()
            means = {
                "goodput_mbit": float(numpy.mean(goodputs)),
                "delay_ms": float(10 ** numpy.mean(logs)),
                "spread_mbit": float(numpy.std(goodputs)),
                "spread_times": float(10 ** numpy.std(logs)),
            }
            spread = {"xx": xx, "xy": xy, "yy": yy}
            rows.append(with_source(DataFrame([{**means, **spread}]), run))
    return concat(rows, ignore_index=True) if rows else DataFrame()


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
            goodputs.append(sum(flow.mbit(at, at + length_ns) for flow in downward(run)))
            delays.append(float(inside["delay_ms"].mean()))
        at += length_ns
    return goodputs, delays


def _ellipse(rows: DataFrame) -> tuple[list[float], list[float]]:
    """The ellipse of one standard deviation of goodput and of the logarithm of the delay."""
    row = rows.iloc[0]
    xx, xy, yy = (float(row[name]) for name in ("xx", "xy", "yy"))
    spread = sqrt(((xx - yy) / 2) ** 2 + xy**2)
    long, short = (sqrt(max(0.0, (xx + yy) / 2 + sign * spread)) for sign in (1, -1))
    turn = atan2(2 * xy, xx - yy) / 2
    x, y = float(row["goodput_mbit"]), log10(float(row["delay_ms"]))
    angles = [2 * pi * step / ELLIPSE_POINTS for step in range(ELLIPSE_POINTS + 1)]
    return (
        [x + long * cos(t) * cos(turn) - short * sin(t) * sin(turn) for t in angles],
        [10 ** (y + long * cos(t) * sin(turn) + short * sin(t) * cos(turn)) for t in angles],
    )


def _describe_compared(rows: DataFrame) -> str:
    means = "; ".join(
        f"{row['condition']} {row['goodput_mbit']:.1f} Mbit/s, {row['delay_ms']:.1f} ms"
        for row in rows.to_dict("records")
    )
    return f"Means: {means}."


latency_against_throughput = Lines(
    "Delay against goodput",
    rows=_compared,
    empty="none of these runs has a steady state",
    x=Axis("goodput_mbit"),
    y=Axis("delay_ms", "delay in the queue", log=True, ticks=DIGITS),
    by="condition",
    mode="markers",
    predicted=Prediction(curve=_ellipse, each=True, name="{}", look=Look(""), fill=True),
    caption=caption_of,
    note=f"windows of {WINDOW_S:g} s; ellipses: one standard deviation; better is right and down",
    describe=_describe_compared,
    table={
        "condition": "condition",
        "goodput_mbit": "goodput, Mbit/s",
        "delay_ms": "delay, ms",
        "spread_mbit": "its spread, Mbit/s",
        "spread_times": "its spread, times",
    },
    height=288,
)
"""The delay in the queue and the goodput of windows of half a second in steady state."""
