"""Figures of the lab `sharing`."""

from __future__ import annotations

from labs.experiments.sharing.conditions import AGAINST_BBR
from labs.experiments.sharing.results import Results
from labs.read.figures.axes import POINTS, Axis
from labs.read.figures.declaration import in_group
from labs.read.figures.lines import Lines
from labs.read.figures.marks import Mark
from labs.read.figures.traffic import goodput, latency_against_throughput, phase, queue, windows

__all__ = [
    "goodput",
    "latency_against_throughput",
    "phase",
    "queue",
    "share_against_buffer",
    "windows",
]

share_against_buffer = Lines(
    "BBR's share against one CUBIC flow",
    rows=in_group(AGAINST_BBR, having=["share_pct", "buffer_bdp"]),
    of=Results,
    empty="none of these runs has several flows",
    x=Axis("buffer_bdp", "size of the FIFO", log=True, ticks=POINTS),
    y=Axis("share_pct", "share of the goodput", range=(0, 103)),
    by="kernel",
    named="measured, Linux {}",
    marks=(Mark(50.0, "an equal share", axis="y"),),
    height=440,
)
