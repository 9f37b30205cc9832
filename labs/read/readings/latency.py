"""The response times of a run, as its client reports them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labs.read.runs.raw_files import AB_REPORT, ASK, ab_percentiles
from labs.read.runs.run import Run

SMALLEST_MS = 1.0
"""In virtual time computation takes almost no time: shorter times than this are not judged."""
AB, OWN = "client/ab.txt", "client/ask.json"


@dataclass(frozen=True)
class Latency:
    """The times of a run's requests in ms, and how many there were.

    ab's `mean_ms` is its "Time per request (mean)", which an article quotes; `p50_ms` and `p99_ms`
    are from its percentiles, to the microsecond. `quantiles_ms` has 101 values, from the fastest
    request to the slowest: the distribution. A client that asks again only when it was answered (a
    closed loop) has as many requests in a stall as there are connections, however long it lasts,
    so all of these are per request made and not per moment.
    """

    mean_ms: float
    p50_ms: float
    p99_ms: float
    quantiles_ms: tuple[float, ...]
    requests: int
    failed: int


def latency(run: Run) -> Latency:
    """Read what the client of the run wrote; Damaged for what it cannot have written."""
    return _of_ab(run) if AB in run.seal.files else _of_our_own(run)


def _of_ab(run: Run) -> Latency:
    report = run.read(AB, AB_REPORT)
    fine = run.read("client/ab.csv", ab_percentiles(report))
    return Latency(
        mean_ms=report.mean_ms,
        p50_ms=fine[50],
        p99_ms=fine[99],
        quantiles_ms=tuple(fine[percent] for percent in range(101)),
        requests=report.complete,
        failed=report.failed + report.refused,
    )


def _of_our_own(run: Run) -> Latency:
    latencies_ms = sorted(run.read(OWN, ASK))
    at = tuple(_quantile(latencies_ms, percent) for percent in range(101))
    return Latency(
        mean_ms=sum(latencies_ms) / len(latencies_ms),
        p50_ms=at[50],
        p99_ms=at[99],
        quantiles_ms=at,
        requests=len(latencies_ms),
        failed=0,
    )


def _quantile(ordered: Sequence[float], percent: int) -> float:
    """As ab computes it: the time of the request at that rank, without interpolation."""
    return ordered[min(int(0.5 + len(ordered) * percent / 100), len(ordered) - 1)]
