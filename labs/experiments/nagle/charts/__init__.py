"""Figures of the lab `nagle`, each from a table of results, a study, a run or a capture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labs.experiments.nagle.charts.responses import by_condition, matrix, segments
from labs.experiments.nagle.requests import packets_of, requests_of, table_of, typical
from labs.read.charts import ladder as drawn
from labs.read.charts.ecdf import latency, time_to_ack
from labs.read.charts.ladder import MOST_PACKETS
from labs.read.charts.style import where_from
from labs.read.display.provenance import of_table
from labs.read.flows.rtt import time_to_ack as waited
from labs.read.readings.latency import SMALLEST_MS
from labs.read.runs.run import Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pandas import DataFrame, Series
    from plotly.graph_objects import Figure

    from labs.read.charts.style import Source
    from labs.read.lab import Study

__all__ = [
    "acks",
    "by_condition",
    "distribution",
    "ladder",
    "ladder_of_request",
    "matrix",
    "segments",
]

STALL_MS = {"40 ms": 40.0}
AFTER_DELAY = " · the server's packets are captured after the delay"
"""Source: net/core/dev.c dev_hard_start_xmit(): a capture sees a packet when the queue lets it go.
"""


def distribution(study: Study, *conditions: str) -> Figure:
    """The share of a condition's requests that were answered within a time, for each of these.

    Times are those of the capture at the server, from a request to the last part of its answer.
    """
    rows = study.results()
    chosen = conditions or study.conditions
    virtual = (rows["testbed"] == "virtual").any()
    return latency(
        {name: requests_of(study.run(name))["latency_ms"] for name in chosen},
        source=of_table(rows[rows["condition"].isin(chosen)]),
        lines_ms=STALL_MS,
        below_ms=SMALLEST_MS if virtual else None,
    )


def acks(study: Study, *conditions: str) -> Figure:
    """The share of the server's segments that were acknowledged within a time, by condition."""
    rows = study.results()
    chosen = conditions or study.conditions
    virtual = (rows["testbed"] == "virtual").any()
    return time_to_ack(
        {name: waited(table_of(study.run(name))) for name in chosen},
        source=of_table(rows[rows["condition"].isin(chosen)]),
        below_ms=SMALLEST_MS if virtual else None,
    )


def ladder(run: Run, steps: Sequence[str] | None = None) -> Figure:
    """The packets of one request of a run that goes as most do, or in these steps."""
    return ladder_of_request(
        table_of(run), typical(requests_of(run), steps), run, title=f"{run.condition}: one request"
    )


def ladder_of_request(
    table: DataFrame, request: Series[Any], source: Source = "", *, title: str = "One request"
) -> Figure:
    """The packets of one request, of a long one the first that fit: `table` are the segments of
    the capture, `request` a row of `labs.read.flows.exchanges.exchanges`. Of a run on a link with a
    delay the caption says where in the path the capture was taken."""
    rows = packets_of(table, request)
    shown = rows[:MOST_PACKETS]
    more = "" if len(shown) == len(rows) else f", of {len(rows):,} packets the first"
    delayed = isinstance(source, Run) and source.link.asked.delay_ms
    caption = where_from(source) + (AFTER_DELAY if delayed else "")
    return drawn.ladder(
        table,
        int(request["connection"]),
        source=caption,
        title=title + more,
        rows=(shown[0], shown[-1]),
    )
