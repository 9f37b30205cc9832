"""The response times of a run, as its client reports them."""

from __future__ import annotations

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
    are from its percentiles, to the microsecond. A client that asks again only when it was answered
    (a closed loop) has as many requests in a stall as there are connections, however long it lasts,
    so all of these are per request made and not per moment.
    """

    mean_ms: float
    p50_ms: float
    p99_ms: float
    requests: int
    failed: int


def latency(run: Run) -> Latency:
    """Read what the client of the run wrote; Damaged for what it cannot have written."""
    if AB in run.seal.files:
        report = run.read(AB, AB_REPORT)
        fine = run.read("client/ab.csv", ab_percentiles(report))
        failed = report.failed + report.refused
        return Latency(report.mean_ms, fine[50], fine[99], report.complete, failed)
    times_ms = sorted(run.read(OWN, ASK))
    count = len(times_ms)
    # As ab computes it: the time of the request at that rank, without interpolation.
    p50_ms, p99_ms = (times_ms[min(int(0.5 + count * share), count - 1)] for share in (0.5, 0.99))
    return Latency(sum(times_ms) / count, p50_ms, p99_ms, count, 0)
