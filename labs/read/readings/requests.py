"""The latency of small requests beside the flows of a run, as a user feels it, and when idle.

Requests are due at fixed moments however late the answers are (an open loop), so a long queue does
not hide requests that were not sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy

from labs.guest.units import SECOND_NS
from labs.read.parse.reports import RequestReport
from labs.read.readings.flows import begin_ns, steady_ns, traffic_of
from labs.read.runs.raw_files import REQUESTS
from labs.read.runs.run import Run

FILE = "client/requests.json"


@dataclass(frozen=True)
class RequestLatency:
    """Latencies in ms: before the first flow starts, and in the steady state of the flows.
    `unanswered` requests of the steady state had no answer when the run ended."""

    idle_p50_ms: float | None
    p50_ms: float | None
    p99_ms: float | None
    unanswered: int

    @property
    def ratio(self) -> float | None:
        """The median under load as a multiple of the median when idle."""
        if self.p50_ms is None or not self.idle_p50_ms:
            return None
        return self.p50_ms / self.idle_p50_ms


def requests(run: Run) -> tuple[RequestReport, ...]:
    """Every request of a run; none for a run without."""
    return run.read(FILE, REQUESTS) if FILE in run.seal.files else ()


def request_latency(run: Run) -> RequestLatency | None:
    """The latencies of a run; None for a run without requests."""
    every = requests(run)
    if not every:
        return None
    first_ns = begin_ns(run) + min(flow.start_s for flow in traffic_of(run).flows) * SECOND_NS
    from_ns, until_ns = steady_ns(run)
    loaded = [request.latency_ms for request in every if from_ns <= request.due_ns < until_ns]
    idle = [request.latency_ms for request in every if 0 < (request.done_ns or 0) <= first_ns]
    return RequestLatency(
        idle_p50_ms=_percentile(idle, 50),
        p50_ms=_percentile(loaded, 50),
        p99_ms=_percentile(loaded, 99),
        unanswered=loaded.count(None),
    )


def _percentile(times_ms: Iterable[float | None], percent: int) -> float | None:
    """Of the times of those that were answered; None without any."""
    answered = [time_ms for time_ms in times_ms if time_ms is not None]
    return float(numpy.percentile(answered, percent)) if answered else None
