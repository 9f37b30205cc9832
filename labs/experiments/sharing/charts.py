"""Figures of the lab `sharing`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labs.experiments.sharing.conditions import AGAINST_BBR
from labs.read.figures.flows import (
    goodput,
    latency_against_throughput,
    phase,
    queue,
    shares,
    windows,
)

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

__all__ = [
    "goodput",
    "latency_against_throughput",
    "phase",
    "queue",
    "share_against_buffer",
    "windows",
]


def share_against_buffer(table: DataFrame) -> Figure:
    """BBR's share against the size of the FIFO, measured and predicted."""
    rows = table[table["group"] == AGAINST_BBR.name]
    return shares(
        rows,
        "buffer_bdp",
        "size of the FIFO (BDP)",
        title="BBR's share against one CUBIC flow",
        fair_pct=50.0,
    )
