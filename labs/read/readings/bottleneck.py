"""The bottleneck queue of a run: how long packets waited in it, and how many it dropped or marked.

A queue of so many bytes delays the packet that enters it by the time that the link needs for them:
for a FIFO that is the delay of that packet, for queues of several flows their sum.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy

from labs.drive.testbed.path import NetworkPath
from labs.drive.units import SECOND_NS, bytes_per_second
from labs.read.parse.qdisc_samples import QueueSample
from labs.read.readings.flows import begin_ns, steady_ns, traffic_of
from labs.read.runs.raw_files import MARKED, QUEUE
from labs.read.runs.run import KEPT_RUNS, Run

if TYPE_CHECKING:
    from pandas import DataFrame


def queue_host(run: Run, direction: str) -> str | None:
    """The host on which the queue of a direction was sampled; None for a direction without."""
    name = f"queue-{direction}.bin"
    return next((host for host in run.hosts if f"{host}/{name}" in run.seal.files), None)


@lru_cache(maxsize=2 * KEPT_RUNS)
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


def over_time(run: Run, direction: str = "down") -> DataFrame:
    """The queue over time: `t_s` from the start of the traffic, `packets`, `kib`, `delay_ms`, and
    `dropped`, the packets dropped since the sample before."""
    from pandas import DataFrame  # noqa: PLC0415  results need only numpy

    samples, path, begin = queue_samples(run, direction), traffic_of(run).path, begin_ns(run)
    times = [(sample.at_ns - begin) / SECOND_NS for sample in samples]
    rates = [bytes_per_second(rate_mbit_at(path, direction, t_s)) for t_s in times]
    dropped = [sample.dropped for sample in samples]
    return DataFrame(
        {
            "t_s": times,
            "packets": [sample.backlog_packets for sample in samples],
            "kib": [sample.backlog_bytes / 1024 for sample in samples],
            "delay_ms": [
                1e3 * sample.backlog_bytes / rate if rate else 0.0
                for sample, rate in zip(samples, rates, strict=True)
            ],
            "dropped": numpy.diff(dropped, prepend=dropped[:1]).tolist(),
        }
    )


def delays_ms(run: Run, direction: str = "down") -> tuple[float, ...]:
    """The delays in the queue in the steady state, one per sample."""
    table, begin = over_time(run, direction), begin_ns(run)
    from_s, until_s = ((at - begin) / SECOND_NS for at in steady_ns(run))
    inside = table[(table["t_s"] >= from_s) & (table["t_s"] <= until_s)]
    return tuple(inside["delay_ms"].tolist())


def lost_pct(run: Run, direction: str = "down") -> float | None:
    """The share of the packets offered to the queue that it dropped; None without samples."""
    samples = queue_samples(run, direction)
    if len(samples) < 2:
        return None
    first, last = samples[0], samples[-1]
    dropped = last.dropped - first.dropped
    offered = last.sent_packets - first.sent_packets + dropped
    return 100 * dropped / offered if offered else None


def marked_pct(run: Run, direction: str = "down") -> float | None:
    """The share of the packets sent through the queue that it marked (ECN); None if it marks none,
    because the path does not ask it to."""
    host, samples = queue_host(run, direction), queue_samples(run, direction)
    queue = traffic_of(run).path.queue(direction)
    if host is None or len(samples) < 2 or queue is None or not (queue.ecn or queue.kind == "cake"):
        return None
    before, after = (run.read(f"{host}/queues-{when}.json", MARKED) for when in ("before", "after"))
    sent = samples[-1].sent_packets - samples[0].sent_packets
    return 100 * (after - before) / sent if sent else None


def utilisation_pct(run: Run, direction: str = "down") -> float | None:
    """The share of the link's rate that left the queue in the steady state; None without a rate."""
    rate = traffic_of(run).path.direction(direction).rate_mbit
    samples = queue_samples(run, direction)
    if rate is None or len(samples) < 2:
        return None
    edges, begin = steady_ns(run), begin_ns(run)
    sent = numpy.interp(
        edges, [sample.at_ns for sample in samples], [sample.sent_bytes for sample in samples]
    )
    from_s, until_s = ((at - begin) / SECOND_NS for at in edges)
    most = bytes_between(traffic_of(run).path, direction, from_s, until_s)
    return 100 * float(sent[1] - sent[0]) / most if most else None
