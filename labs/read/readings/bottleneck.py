"""The bottleneck queue of a run: how long packets waited in it, and how many it dropped or marked.

A queue of so many bytes delays the packet that enters it by the time that the link needs for them:
for a FIFO that is the delay of that packet, for queues of several flows their sum.
"""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from labs.guest.testbed.path import NetworkPath
from labs.guest.units import SECOND_NS, bytes_per_second
from labs.read.parse.qdisc_samples import QueueSample
from labs.read.readings.flows import begin_ns, in_steady_state, steady_ns, steady_s, traffic_of
from labs.read.runs.raw_files import MARKED, QUEUE
from labs.read.runs.run import KEPT_RUNS, Run

if TYPE_CHECKING:
    from pandas import DataFrame


def queue_host(run: Run, direction: str) -> str | None:
    """The host on which the queue of a direction was sampled; None for a direction without."""
    name = f"queue-{direction}.bin"
    return next((host for host in run.hosts if f"{host}/{name}" in run.seal.files), None)


def queue_samples(run: Run, direction: str = "down") -> tuple[QueueSample, ...]:
    """The samples of the queue of a direction; none for a direction without."""
    host = queue_host(run, direction)
    return () if host is None else run.read(f"{host}/queue-{direction}.bin", QUEUE)


def rate_mbit_at(path: NetworkPath, direction: str, t_s: float) -> float:
    """The rate of a direction at a moment of the traffic; 0 without a limit."""
    rate = path.direction(direction).rate_mbit or 0.0
    for change in sorted(path.changes, key=lambda change: change.at_s):
        if change.direction == direction and change.rate_mbit and change.at_s <= t_s:
            rate = change.rate_mbit
    return rate


def bytes_between(path: NetworkPath, direction: str, from_s: float, until_s: float) -> float:
    """What a direction carries at most between two moments of the traffic, by its rate."""
    inside = [change.at_s for change in path.changes if from_s < change.at_s < until_s]
    edges = sorted({from_s, *inside, until_s})
    return sum(
        bytes_per_second(rate_mbit_at(path, direction, at_s)) * (next_s - at_s)
        for at_s, next_s in pairwise(edges)
    )


@lru_cache(maxsize=2 * KEPT_RUNS)
def over_time(run: Run, direction: str = "down") -> DataFrame:
    """The queue over time: the samples, with `t_s` from the start of the traffic, `packets`, `kib`,
    `delay_ms`, and `dropped`, the packets dropped since the sample before; `dropped_in_all`. Empty
    for a direction without a queue."""
    from pandas import DataFrame  # noqa: PLC0415  results need only numpy

    path, columns = traffic_of(run).path, [field.name for field in fields(QueueSample)]
    samples = DataFrame([*map(vars, queue_samples(run, direction))], columns=columns)
    t_s = (samples["at_ns"] - begin_ns(run)) / SECOND_NS
    rates = [bytes_per_second(rate_mbit_at(path, direction, at_s)) for at_s in t_s]
    return samples.assign(
        t_s=t_s,
        packets=samples["backlog_packets"],
        kib=samples["backlog_bytes"] / 1024,
        delay_ms=1e3 * samples["backlog_bytes"] / rates,
        dropped=samples["dropped"].diff().fillna(0),
        dropped_in_all=samples["dropped"],
    )


def delays_ms(run: Run, direction: str = "down") -> tuple[float, ...]:
    """The delays in the queue in the steady state, one per sample."""
    return tuple(in_steady_state(run, over_time(run, direction))["delay_ms"])


def lost_pct(run: Run) -> float | None:
    """The share of the packets offered to the queue that it dropped; None without samples."""
    dropped, sent = _grown(run, "dropped_in_all"), _grown(run, "sent_packets")
    return 100 * dropped / (sent + dropped) if sent + dropped else None


def marked_pct(run: Run) -> float | None:
    """The share of the packets sent through the queue that it marked (ECN); None if it marks none,
    because the path does not ask it to."""
    host, queue = queue_host(run, "down"), traffic_of(run).path.queue("down")
    if host is None or queue is None or not (queue.ecn or queue.kind == "cake"):
        return None
    before, after = (run.read(f"{host}/queues-{when}.json", MARKED) for when in ("before", "after"))
    sent = _grown(run, "sent_packets")
    return 100 * (after - before) / sent if sent else None


def _grown(run: Run, column: str) -> int:
    """How much a counter of the queue grew over the run; 0 without samples."""
    counted = over_time(run)[column]
    return 0 if counted.empty else int(counted.iloc[-1] - counted.iloc[0])


def utilisation_pct(run: Run) -> float | None:
    """The share of the link's rate that left the queue in the steady state; None without a rate."""
    samples, most = over_time(run), bytes_between(traffic_of(run).path, "down", *steady_s(run))
    if samples.empty or not most:
        return None
    sent = np.interp(steady_ns(run), samples["at_ns"], samples["sent_bytes"])
    return 100 * float(sent[1] - sent[0]) / most
