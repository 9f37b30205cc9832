"""Figures of the lab `queues`."""

from __future__ import annotations

from labs.experiments.queues.conditions import AQM, BUFFERS
from labs.experiments.queues.results import Results
from labs.read.display.format import in_three_digits
from labs.read.figures.axes import POINTS, Axis
from labs.read.figures.bars import Bar, Bars
from labs.read.figures.declaration import in_group
from labs.read.figures.lines import CONTROLS, Lines, Prediction
from labs.read.figures.style import BLUE, GREY, ORANGE
from labs.read.figures.traffic import goodput, latency_against_throughput, queue, windows

__all__ = ["goodput", "latency_against_throughput", "queue", "requests", "utilisation", "windows"]

utilisation = Lines(
    "Utilisation against the size of a FIFO",
    rows=in_group(BUFFERS),
    of=Results,
    empty="none of these runs varies the size of a FIFO",
    x=Axis("buffer_bdp", "size of the FIFO", log=True, ticks=POINTS),
    y=Axis("utilisation_pct", "utilisation"),
    by="controls",
    named="{}, measured",
    looks=CONTROLS,
    predicted=Prediction(each=True, name="{}, predicted"),
    height=460,
)

requests = Bars(
    "Latency of requests beside a download",
    rows=in_group(AQM, having=["request_p50_ms"], order="request_p50_ms"),
    of=Results,
    empty="none of these runs has requests",
    bars=(
        Bar("request_idle_ms", "idle", GREY),
        Bar("request_p50_ms", "median", BLUE),
        Bar("request_p99_ms", "99 %", ORANGE),
    ),
    words="latency",
    remark=lambda row: f"median {in_three_digits(row['request_ratio'])} times idle",
    table={
        "condition": "queue",
        "request_idle_ms": "idle, ms",
        "request_p50_ms": "median, ms",
        "predicted_request_ms": "predicted median, ms",
        "request_p99_ms": "99 %, ms",
        "request_ratio": "median / idle",
    },
)
