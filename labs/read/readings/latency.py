"""How long the answers of a run took, as its client says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labs.drive.record.stored_files import parse
from labs.read.parse.http_clients import ab, ab_percentiles
from labs.read.readings.written import as_written
from labs.read.runs.run import Run

SMALLEST_MS = 1.0
"""On virtual time work takes next to none: what is shorter than this is not judged."""
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
    name, read = (AB, _of_ab) if AB in run.seal.files else (OWN, _of_our_own)
    with as_written(run, name):
        return read(run)


def _of_ab(run: Run) -> Latency:
    said = ab(run.text(AB))
    requests = said.complete or 0
    fine = ab_percentiles(run.text("client/ab.csv"), requests)
    assert said.mean_ms is not None  # ab ended in order, or there would be no run
    return Latency(
        mean_ms=said.mean_ms,
        p50_ms=fine[50],
        p99_ms=fine[99],
        quantiles_ms=tuple(fine[percent] for percent in range(101)),
        requests=requests,
        failed=(said.failed or 0) + said.refused,
    )


def _of_our_own(run: Run) -> Latency:
    said = parse(run.file(OWN).read_bytes())
    assert isinstance(said, dict)
    found = sorted(map(float, said["times_ms"]))
    at = tuple(_quantile(found, percent) for percent in range(101))
    return Latency(
        mean_ms=sum(found) / len(found),
        p50_ms=at[50],
        p99_ms=at[99],
        quantiles_ms=at,
        requests=len(found),
        failed=0,
    )


def _quantile(ordered: Sequence[float], percent: int) -> float:
    """As ab takes it: the request at that share of all, none between two."""
    return ordered[min(int(0.5 + len(ordered) * percent / 100), len(ordered) - 1)]
