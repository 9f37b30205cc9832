"""What the notebook shows of the lab `queues`: figures, tables, and runs in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labs.experiments.queues.conditions import AQM, BUFFERS
from labs.experiments.queues.results import Results
from labs.read.display.format import in_digits, in_three_digits
from labs.read.display.rich_output import Table, Words
from labs.read.display.traffic import acks_of_runs, describe, describe_run
from labs.read.figures.axes import POINTS, Axis
from labs.read.figures.bars import Bar, Bars
from labs.read.figures.declaration import in_group
from labs.read.figures.lines import CONTROLS, Lines, Prediction
from labs.read.figures.style import BLUE, GREY, ORANGE
from labs.read.figures.traffic import goodput, latency_against_throughput, queue, windows
from labs.read.theory.bdp import (
    bandwidth_ratio,
    bdp_bytes,
    clocked_goodput_bytes_s,
    losses_per_bdp,
    mathis_utilisation,
)
from labs.read.theory.queues import full_buffer_bdp, reno_utilisation

if TYPE_CHECKING:
    from labs.read.study import Study

__all__ = ["bandwidth_ratio", "bdp_bytes", "clocked_goodput_bytes_s", "describe", "describe_run"]
__all__ += ["full_buffer_bdp", "goodput", "latency_against_throughput", "losses_per_bdp"]
__all__ += ["mathis_utilisation", "queue", "reno_utilisation", "windows"]

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
    height=288,
)

requests = Bars(
    "Latency of requests beside a download",
    rows=lambda table: in_group(AQM, having=["request_p50_ms"])(table).sort_values(
        "request_p50_ms"
    ),
    of=Results,
    empty="none of these runs has requests",
    bars=(
        Bar("request_idle_ms", "idle", GREY),
        Bar("request_p50_ms", "median", BLUE),
        Bar("request_p99_ms", "99 %", ORANGE),
    ),
    words="latency",
    remark=lambda row: f"median {in_three_digits(row['request_ratio'])} times idle",
    in_one_line=True,
    table={
        "condition": "queue",
        "request_idle_ms": "idle, ms",
        "request_p50_ms": "median, ms",
        "predicted_request_ms": "predicted median, ms",
        "request_p99_ms": "99 %, ms",
        "request_ratio": "median / idle",
    },
)


def compare_queues(study: Study, over: str, under: str) -> Words:
    """How many times longer packets wait in one queue than in another, by the median over time."""
    rows = study.results().set_index("condition").loc[[over, under]]
    longer, shorter = rows["queue_p50_ms"].astype(float)
    factor = f", a factor of {in_digits(longer / shorter)}" if shorter else ""
    utilisations = (f"{in_digits(value)} %" for value in rows["utilisation_pct"])
    return Words(
        f"The median queueing delay is {in_digits(longer)} ms in `{over}` and "
        f"{in_digits(shorter)} ms in `{under}`{factor}. The utilisation is "
        f"{' and '.join(utilisations)}."
    )


def segments_per_ack(study: Study, *conditions: str) -> Table:
    """One row per condition: how many segments each ACK that arrived acknowledged."""
    return acks_of_runs({condition: study.run(condition) for condition in conditions})
