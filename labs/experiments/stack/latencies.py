"""The latencies of runs of the lab `stack` as HDR histograms, which can be added up.

An HDR histogram keeps counts in buckets of a fixed relative width (here three digits), so the
histograms of repetitions add up, and percentiles of the sum are those of all requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache

from hdrh.histogram import HdrHistogram

from labs.drive.condition import read_settings
from labs.experiments.stack.settings import WRK, Settings
from labs.read.parse.http_loads import Hit, Wrk, intended_us
from labs.read.runs.raw_files import VEGETA
from labs.read.runs.raw_files import WRK as WRK_REPORT
from labs.read.runs.run import Run

LEAST_US, MOST_US, DIGITS = 1, 3_600_000_000, 3


def settings_of(run: Run) -> Settings:
    """The settings of a run's condition."""
    return read_settings(Settings, run.condition_asked.settings)


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
    settings = settings_of(run)
    if settings.load == WRK:
        return of_wrk(run).latencies_us
    return Counter(intended_us(of_vegeta(run), settings.rate_per_s))


def mean_us(run: Run) -> float:
    """The mean latency of a run in microseconds."""
    counts = latencies_us(run)
    return sum(value * count for value, count in counts.items()) / sum(counts.values())


@cache
def histogram(run: Run) -> HdrHistogram:
    """The latencies of a run in microseconds as a histogram."""
    found = HdrHistogram(LEAST_US, MOST_US, DIGITS)
    for value, count in latencies_us(run).items():
        found.record_value(max(LEAST_US, value), count)
    return found


def merged(runs: Iterable[Run]) -> HdrHistogram:
    """The histogram of the requests of several runs together."""
    total = HdrHistogram(LEAST_US, MOST_US, DIGITS)
    for run in runs:
        total.add(histogram(run))
    return total
