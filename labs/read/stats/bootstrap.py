"""The median of repeated measurements, and how well it is known: a bootstrap interval.

The median, because one slow run out of many says something of the machine and nothing of TCP; the
percentile bootstrap, because it asks nothing of the distribution. Of five values the interval goes
from the smallest to the largest, and holds the true median in 1 - 2 * (1/2)^5 = 93.75 % of all
cases, whatever the distribution. Of fewer it would promise what it cannot keep, so there is none.
Efron, "The Jackknife, the Bootstrap and Other Resampling Plans" (1982), chapter 10.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy

LEVEL_PCT = 95.0
FEWEST = 5
RESAMPLES = 10_000
SEED = 20200413
"""The same values have the same interval, whenever it is asked for."""


@dataclass(frozen=True)
class Interval:
    """A median and its 95 % interval, both in the unit of the values; `count` is of how many."""

    middle: float
    low: float
    high: float
    count: int

    @property
    def width_pct(self) -> float | None:
        """How wide the interval is, in per cent of the median; None if that is 0."""
        return 100 * (self.high - self.low) / abs(self.middle) if self.middle else None


def of_median(values: Sequence[float]) -> Interval | None:
    """The interval of a median; None for fewer values than it takes."""
    if len(values) < FEWEST:
        return None
    return _interval(float(numpy.median(values)), _medians(values, 0), len(values))


def of_ratio(
    over: Sequence[float],
    under: Sequence[float],
    *,
    exact_over: bool = False,
    exact_under: bool = False,
) -> Interval | None:
    """The interval of the ratio of two medians; None if one side has too few values, or the one
    below is 0.

    `exact` says of a side that it repeats to the byte: one value of it is enough. `count` is of
    the side that has fewer of those that do not.
    """
    medians = [_of_side(over, 0, exact_over), _of_side(under, 1, exact_under)]
    if medians[0] is None or medians[1] is None or not medians[1].all():
        return None
    middle = float(numpy.median(over) / numpy.median(under))
    counts = [len(side) for side, exact in ((over, exact_over), (under, exact_under)) if not exact]
    return _interval(middle, medians[0] / medians[1], min(counts, default=1))


def _of_side(
    values: Sequence[float], stream: int, exact: bool
) -> numpy.typing.NDArray[numpy.float64] | None:
    if exact and values:
        return numpy.full(RESAMPLES, numpy.median(values))
    return _medians(values, stream) if len(values) >= FEWEST else None


def _medians(values: Sequence[float], stream: int) -> numpy.typing.NDArray[numpy.float64]:
    """The medians of as many draws, with replacement, as there are resamples."""
    chance = numpy.random.default_rng([SEED, stream])
    drawn = chance.choice(numpy.asarray(values, dtype=float), (RESAMPLES, len(values)))
    found: numpy.typing.NDArray[numpy.float64] = numpy.median(drawn, axis=1)
    return found


def _interval(
    middle: float, resampled: numpy.typing.NDArray[numpy.float64], count: int
) -> Interval:
    beside = (100 - LEVEL_PCT) / 2
    low, high = numpy.percentile(resampled, [beside, 100 - beside])
    return Interval(middle, float(low), float(high), count)
