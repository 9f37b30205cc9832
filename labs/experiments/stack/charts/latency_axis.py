"""The logarithmic axis of latencies."""

from __future__ import annotations

from math import log10

from plotly.graph_objects import Figure

from labs.read.charts.style import log_ticks, log_title

SECOND_US, MS_US = 1_000_000, 1000
ROOM = 1.6


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
