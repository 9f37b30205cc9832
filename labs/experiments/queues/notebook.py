"""What a notebook calls as `labs.queues.NAME`, besides the study and the charts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labs.read.display.format import in_digits
from labs.read.display.rich_output import Table, Words
from labs.read.display.traffic import flows
from labs.read.display.traffic import segments_per_ack as acks_of_runs
from labs.read.readings.bottleneck import delays_ms
from labs.read.theory.bdp import bdp_bytes
from labs.read.theory.codel import drop_times_ms, largest_queue_ms
from labs.read.theory.mathis import loss_event_pct, losses_per_bdp, mathis_utilisation
from labs.read.theory.sawtooth import cycle, full_buffer_bdp, reno_utilisation
from labs.read.theory.slow_acks import bandwidth_ratio, clocked_goodput_bytes_s

if TYPE_CHECKING:
    from labs.read.study import Study

__all__ = [
    "bandwidth_ratio",
    "bdp_bytes",
    "clocked_goodput_bytes_s",
    "compare_queues",
    "cycle",
    "delays",
    "drop_times_ms",
    "flows",
    "full_buffer_bdp",
    "largest_queue_ms",
    "loss_event_pct",
    "losses_per_bdp",
    "mathis_utilisation",
    "reno_utilisation",
    "segments_per_ack",
]

QUANTILES = (5, 50, 95, 99)


def delays(study: Study, *conditions: str) -> Table:
    """One row per condition: percentiles of the delay in the queue over time, in steady state."""
    import numpy  # noqa: PLC0415

    rows = []
    for name in conditions:
        found = delays_ms(study.run(name))
        at = numpy.percentile(found, QUANTILES).tolist() if found else [None] * len(QUANTILES)
        rows.append(
            {
                "Condition": name,
                **{f"{q} % (ms)": one for q, one in zip(QUANTILES, at, strict=True)},
            }
        )
    return Table(rows).round(2)


def compare_queues(study: Study, over: str, under: str) -> Words:
    """How many times longer packets wait in one queue than in another, by the median over time."""
    rows = {row["condition"]: row for row in study.results().to_dict("records")}
    first, second = (float(rows[name]["queue_p50_ms"]) for name in (over, under))
    factor = f", a factor of {in_digits(first / second)}" if second else ""
    return Words(
        f"The median queueing delay is {in_digits(first)} ms in `{over}` and "
        f"{in_digits(second)} ms in `{under}`{factor}. The utilisation is "
        f"{in_digits(rows[over]['utilisation_pct'])} % and "
        f"{in_digits(rows[under]['utilisation_pct'])} %."
    )


def segments_per_ack(study: Study, *conditions: str) -> Table:
    """One row per condition: how many segments each ACK that arrived acknowledged."""
    return acks_of_runs({name: study.run(name) for name in conditions})
