"""The latencies of runs of the lab `stack`: the number of requests per microsecond of latency.

Counts of repetitions add up, and percentiles of the sum are those of all requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt

from labs.experiments.stack.settings import WRK, Settings
from labs.read.parse.http_loads import Hit, Wrk, intended_us
from labs.read.runs.raw_files import VEGETA
from labs.read.runs.raw_files import WRK as WRK_REPORT
from labs.read.runs.run import Run


@dataclass(frozen=True, eq=False)
class Latencies:
    """Distinct latencies in microseconds, ascending, and the number of requests up to each."""

    values_us: npt.NDArray[np.int64]
    up_to: npt.NDArray[np.int64]

    @property
    def requests(self) -> int:
        """The number of requests."""
        return int(self.up_to[-1])

    @property
    def max_us(self) -> int:
        """The largest latency."""
        return int(self.values_us[-1])

    def percentile_us(self, percent: float) -> int:
        """The least latency that at least `percent` of all requests do not exceed (nearest rank).

        `percent` is taken to two decimals, so that the rank is computed in whole numbers. wrk has
        the same rank, except that it takes the next one if the share is a whole number of requests
        (stats.c, stats_percentile).
        """
        rank = -(-round(100 * percent) * self.requests // 10_000)
        return int(self.values_us[np.searchsorted(self.up_to, max(1, rank))])


@lru_cache(maxsize=1)
def of_wrk(run: Run) -> Wrk:
    """The report of wrk. The last one is cached."""
    return run.read("client/wrk.txt", WRK_REPORT)


@lru_cache(maxsize=1)
def of_vegeta(run: Run) -> tuple[Hit, ...]:
    """The requests of vegeta. The last ones are cached."""
    return run.read("client/vegeta.csv", VEGETA)


def latencies_us(run: Run) -> Mapping[int, int]:
    """The number of requests per latency in microseconds: from the moment of sending in a closed
    loop, and from the intended moment in an open loop."""
    settings = run.settings_as(Settings)
    if settings.load == WRK:
        return of_wrk(run).latencies_us
    return Counter(intended_us(of_vegeta(run), settings.rate_per_s))


def mean_us(run: Run) -> float:
    """The mean latency of a run in microseconds."""
    counts = latencies_us(run)
    return sum(value * count for value, count in counts.items()) / sum(counts.values())


@cache
def latencies(run: Run) -> Latencies:
    """The latencies of one run."""
    return _counted(latencies_us(run))


def merged(runs: Iterable[Run]) -> Latencies:
    """The latencies of the requests of several runs together."""
    total: Counter[int] = Counter()
    for run in runs:
        total.update(latencies_us(run))
    return _counted(total)


def _counted(requests: Mapping[int, int]) -> Latencies:
    values = np.array(sorted(requests), dtype=np.int64)
    return Latencies(values, np.cumsum([requests[value] for value in values.tolist()]))
