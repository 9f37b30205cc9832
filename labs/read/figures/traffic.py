"""Figures of runs with several flows: goodput and windows over time, the queue over time, delay
against goodput, and the phase of two windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import atan2, cos, hypot, pi, sin, sqrt
from typing import TYPE_CHECKING

import numpy
from pandas import DataFrame, Series, concat, cut

from labs.errors import BadInput
from labs.guest.units import SECOND_NS
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


def _path_words(run: Run) -> str:
    """The path of a run in words: `20 Mbit/s, RTT 40 ms, pfifo of 100 packets`."""
    path = traffic_of(run).path
    queue, rate = path.queue("down"), path.down.rate_mbit
    words = f"{rate:g} Mbit/s" if rate else "no rate limit"
    words += f", RTT {path.rtt_ms:g} ms"
    if queue is None:
        return words
    words += f", {queue.kind}"
    if queue.packets:
        words += f" of {queue.packets} packets"
    elif queue.size_bytes:
        words += f" of {queue.size_bytes:,} bytes"
    return f"{words}, ECN" if queue.ecn else words


def _with_source(table: DataFrame, run: Run) -> DataFrame:
    """A table of a run with what a title and a caption say about the run."""
    return table.assign(
        condition=run.condition,
        testbed=run.testbed,
        kernel=run.kernel.release,
        path=_path_words(run),
    )


def _caption_of(rows: DataFrame) -> str:
    """The caption of a chart of runs: testbed, kernel and path of each. What a run's link says is
    about its wires only."""
    testbeds, kernels, paths = (dict.fromkeys(rows[name]) for name in ("testbed", "kernel", "path"))
    linux = ", ".join(f"Linux {kernel}" for kernel in kernels)
    return " · ".join([", ".join(testbeds), linux, f"path: {'; '.join(paths)}"])


def _titled(words: str) -> Callable[[DataFrame], str]:
    """A title with the condition, if the rows are of one."""

    def title(rows: DataFrame) -> str:
        names = set(rows.get("condition", ()))
        return f"{words}: {names.pop()}" if len(names) == 1 else words

    return title


def _each(rows: DataFrame, by: str, column: str) -> str:
    """A value for each flow or run: `cubic 9.51, bbr 9.62`."""
    values = rows.groupby(by, sort=False)[column].first().dropna()
    return ", ".join(f"{name} {in_three_digits(value)}" for name, value in values.items())


def _control_of(flow: str) -> str:
    return flow.rpartition(" ")[2]


def _per_flow(run: Run, step_s: float = 0.5) -> DataFrame:
    """The goodput of each flow over time, its mean in steady state, and an equal share."""
    flows, rate = downward(run), traffic_of(run).path.down.rate_mbit
    steady = {flow.name: flow.mbit(*steady_ns(run)) for flow in flows}
    table = _with_source(over_time(run, step_s), run)
    equal_mbit = rate / len(flows) if rate and len(flows) > 1 else float("nan")
    return table.assign(steady_mbit=table["flow"].map(steady), equal_mbit=equal_mbit)


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
    caption=_caption_of,
    describe=lambda rows: (
        f"Goodput in steady state, in Mbit/s: {_each(rows, 'flow', 'steady_mbit')}."
    ),
)


def _window_samples(run: Run) -> DataFrame:
    samples = sockets(run)
    columns = ["t_s", "flow", "snd_cwnd_segments"]
    return samples if samples.empty else _with_source(samples[columns].dropna(), run)


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
    caption=_caption_of,
    describe=_describe_windows,
)


def _delays(*runs: Run, direction: str = "down") -> DataFrame:
    """The delay in the queue of each run over time, and its median in steady state."""
    parts = [
        _with_source(bottleneck.over_time(run, direction), run).assign(
            median_ms=float(numpy.median(bottleneck.delays_ms(run, direction) or [numpy.nan]))
        )
        for run in runs
        if bottleneck.queue_host(run, direction)
    ]
    return concat(parts, ignore_index=True) if parts else DataFrame()


queue = Lines(
    _titled("Delay in the queue"),
    rows=_delays,
    empty="none of these runs has a queue",
    x=Axis("t_s", "time"),
    y=Axis("delay_ms", log=True, ticks=DIGITS, least=LEAST_DELAY_MS),
    by="condition",
    mode="lines",
    moments=MOMENTS,
    caption=_caption_of,
    describe=lambda rows: (
        f"Median delay in steady state, in ms: {_each(rows, 'condition', 'median_ms')}. "
        f"An empty queue is drawn at {LEAST_DELAY_MS:g} ms."
    ),
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
        caption=_caption_of,
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
    return _with_source(both[both["at_ns"] >= steady_ns(run)[0]], run)


def _compared(*runs: Run) -> DataFrame:
    """Per run: means of goodput and of the delay's logarithm in steady state, and how they vary."""
    rows = []
    for run in runs:
        windows = _windows_of(run)
        if len(windows) >= FEWEST_WINDOWS:
            mean, spread, of_both = windows.mean(), windows.std(ddof=0), windows.cov()
            means = {
                "goodput_mbit": mean["goodput_mbit"],
                "delay_ms": 10 ** mean["log_delay"],
                "spread_mbit": spread["goodput_mbit"],
                "spread_times": 10 ** spread["log_delay"],
                "xx": of_both.iat[0, 0],
                "xy": of_both.iat[0, 1],
                "yy": of_both.iat[1, 1],
            }
            rows.append(_with_source(DataFrame([means]), run))
    return concat(rows, ignore_index=True) if rows else DataFrame()


def _windows_of(run: Run) -> DataFrame:
    """The goodput of all flows down and the logarithm of the mean delay in the queue, per window of
    the steady state that has samples."""
    (from_ns, until_ns), begin = steady_ns(run), begin_ns(run)
    length_ns = WINDOW_S * SECOND_NS
    count = int((until_ns - from_ns) // length_ns)
    edges = [from_ns + number * length_ns for number in range(count + 1)]
    queue = bottleneck.over_time(run)
    number = cut(
        queue["t_s"], [(at - begin) / SECOND_NS for at in edges], right=False, labels=False
    )
    delays = queue.groupby(number)["delay_ms"].mean().clip(lower=LEAST_DELAY_MS)
    goodputs = [sum(flow.mbit(*window) for flow in downward(run)) for window in pairwise(edges)]
    return DataFrame({"goodput_mbit": Series(goodputs), "log_delay": numpy.log10(delays)}).dropna()


def _ellipse(rows: DataFrame) -> tuple[Sequence[float], Sequence[float]]:
    """The ellipse of one standard deviation of goodput and of the logarithm of the delay."""
    row = rows.iloc[0]
    xx, xy, yy = row["xx"], row["xy"], row["yy"]
    spread = hypot((xx - yy) / 2, xy)
    long, short = (sqrt(max(0.0, (xx + yy) / 2 + part)) for part in (spread, -spread))
    turn = atan2(2 * xy, xx - yy) / 2
    angles = numpy.linspace(0, 2 * pi, ELLIPSE_POINTS + 1)
    across, up = long * numpy.cos(angles), short * numpy.sin(angles)
    xs = row["goodput_mbit"] + across * cos(turn) - up * sin(turn)
    ys = row["delay_ms"] * 10 ** (across * sin(turn) + up * cos(turn))
    return xs.tolist(), ys.tolist()


def _describe_compared(rows: DataFrame) -> str:
    means = (
        f"{row.condition} {row.goodput_mbit:.1f} Mbit/s, {row.delay_ms:.1f} ms"
        for row in rows.itertuples()
    )
    return f"Means: {'; '.join(means)}."


latency_against_throughput = Lines(
    "Delay against goodput",
    rows=_compared,
    empty="none of these runs has a steady state",
    x=Axis("goodput_mbit"),
    y=Axis("delay_ms", "delay in the queue", log=True, ticks=DIGITS),
    by="condition",
    mode="markers",
    predicted=Prediction(curve=_ellipse, each=True, name="{}", look=Look(""), fill=True),
    caption=_caption_of,
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
