"""Repeated runs of one condition: their figure, its interval, and the run in the middle.

The figure is the median, because one slow run out of many says something about the machine and
nothing about TCP. Its interval is a percentile bootstrap, which assumes nothing about the
distribution. With five values the interval spans the smallest to the largest and covers the true
median in 1 - 2 * (1/2)^5 = 93.75 % of all cases, whatever the distribution. With fewer values the
coverage would be too low, so there is no interval.
Efron, "The Jackknife, the Bootstrap and Other Resampling Plans" (1982), chapter 10.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy

from labs.read.lab import Lab
from labs.read.runs.run import Run
from labs.read.stats.machines import disturbances

LEVEL_PCT = 95.0
FEWEST = 5
RESAMPLES = 10_000
SEED = 20200413
"""The same values always have the same interval."""


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
    """The interval of a median; None for fewer values than it needs."""
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

    `exact` marks a side that repeats to the byte: one value of it is enough. `count` is of
    the side that has fewer of those that do not.
    """
    medians = [_of_side(over, 0, exact_over), _of_side(under, 1, exact_under)]
    if medians[0] is None or medians[1] is None or not medians[1].all():
        return None
    middle = float(numpy.median(over) / numpy.median(under))
    counts = [len(side) for side, exact in ((over, exact_over), (under, exact_under)) if not exact]
    return _interval(middle, medians[0] / medians[1], min(counts, default=1))


def of_interaction(
    neither: Sequence[float], first: Sequence[float], second: Sequence[float], both: Sequence[float]
) -> Interval | None:
    """The interval of the effect of the first setting with the second one, divided by its effect
    without it, where effects are ratios of medians; None with too few values."""
    sides = (both, second, first, neither)
    if min(map(len, sides)) < FEWEST:
        return None
    resampled = [_medians(side, stream) for stream, side in enumerate(sides)]
    if not all(draws.all() for draws in resampled):
        return None
    middles = [float(numpy.median(side)) for side in sides]
    middle = (middles[0] / middles[1]) / (middles[2] / middles[3])
    ratios = (resampled[0] / resampled[1]) / (resampled[2] / resampled[3])
    return _interval(middle, ratios, min(map(len, sides)))


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
    medians: numpy.typing.NDArray[numpy.float64] = numpy.median(drawn, axis=1)
    return medians


def _interval(
    middle: float, resampled: numpy.typing.NDArray[numpy.float64], count: int
) -> Interval:
    beside = (100 - LEVEL_PCT) / 2
    low, high = numpy.percentile(resampled, [beside, 100 - beside])
    return Interval(middle, float(low), float(high), count)


@dataclass(frozen=True)
class Repeated:
    """All runs of a condition. `figure` names what is compared ("" if the lab names nothing);
    `values` are those of the undisturbed runs, in the order of the runs."""

    lab: Lab
    condition: str
    figure: str
    runs: tuple[Run, ...]
    counted: tuple[Run, ...]
    values: tuple[float, ...]

    @property
    def disturbed(self) -> int:
        return len(self.runs) - len(self.counted)

    @property
    def interval(self) -> Interval | None:
        """The interval of the median; None without a figure or with too few undisturbed runs."""
        return of_median(self.values)

    def column(self, name: str) -> tuple[float, ...]:
        """A column of the results of the undisturbed runs that have a value in it."""
        values = (self.lab.results(run).values.get(name) for run in self.counted)
        return tuple(float(value) for value in values if value is not None)

    def median(self, name: str) -> float | None:
        """The median of a column; None if no undisturbed run has a value in it."""
        values = self.column(name)
        return float(numpy.median(values)) if values else None

    @property
    def why(self) -> tuple[str, ...]:
        """What disturbed the excluded runs."""
        return tuple(dict.fromkeys(what for run in self.runs for what in disturbances(run)))

    @property
    def middle(self) -> Run:
        """The median run of the undisturbed ones (of all, if all were disturbed)."""
        among = self.counted or self.runs
        valued = [
            (headline[1], place)
            for place, run in enumerate(among)
            if (headline := self.lab.headline(run)) is not None
        ]
        return among[sorted(valued)[(len(valued) - 1) // 2][1]] if valued else among[0]

    def as_json(self) -> dict[str, Any]:
        """The condition as plain data; null where there is no interval."""
        interval = self.interval
        return {
            "condition": self.condition,
            "figure": self.figure or None,
            "middle": interval and interval.middle,
            "low": interval and interval.low,
            "high": interval and interval.high,
            "width_pct": interval and interval.width_pct,
            "runs": len(self.runs),
            "counted": len(self.counted),
            "disturbed": self.disturbed,
            "disturbances": list(self.why),
        }


def repeated(lab: Lab, runs: Iterable[Run]) -> tuple[Repeated, ...]:
    """The conditions of some runs of a lab, in the order of their first runs."""
    return tuple(_repeated(lab, name, group) for name, group in _by_condition(runs).items())


def on_one_kernel(conditions: Iterable[Repeated]) -> tuple[Repeated, ...]:
    """Conditions that are compared, each with its runs on the same kernel, because two machines
    have two speeds.

    That is the kernel on which all of them have runs, of several the one with most undisturbed
    runs of the condition that has fewest. Empty without such a kernel.
    """
    some = list(conditions)
    kernels = [
        [run.kernel.release for run in condition.counted or condition.runs] for condition in some
    ]
    common = [
        release
        for release in dict.fromkeys(chain.from_iterable(kernels))
        if all(release in releases for releases in kernels)
    ]
    if not common:
        return ()
    chosen = max(common, key=lambda release: min(releases.count(release) for releases in kernels))
    return tuple(_on(chosen, condition) for condition in some)


def undisturbed(conditions: Iterable[Repeated], names: Iterable[str]) -> list[Repeated]:
    """Those of these names that have undisturbed runs, in the order of the names: with their runs
    on one kernel, or if none has them all, each with its runs on the kernel that has most."""
    by_name = {some.condition: some for some in conditions if some.counted}
    chosen = [by_name[name] for name in names if name in by_name]
    return [*on_one_kernel(chosen)] or [only for each in chosen for only in on_one_kernel([each])]


def _on(release: str, condition: Repeated) -> Repeated:
    runs = [run for run in condition.runs if run.kernel.release == release]
    return (
        condition
        if len(runs) == len(condition.runs)
        else _repeated(condition.lab, condition.condition, runs)
    )


def in_the_middle(lab: Lab, runs: Iterable[Run]) -> tuple[Run, ...]:
    """A run for each condition: the only one, or of repetitions the one in the middle."""
    return tuple(
        group[0] if len(group) == 1 else on_one_kernel([_repeated(lab, name, group)])[0].middle
        for name, group in _by_condition(runs).items()
    )


def _by_condition(runs: Iterable[Run]) -> dict[str, list[Run]]:
    together: dict[str, list[Run]] = {}
    for run in runs:
        together.setdefault(run.condition, []).append(run)
    return together


def _repeated(lab: Lab, condition: str, runs: Sequence[Run]) -> Repeated:
    counted = tuple(run for run in runs if not disturbances(run))
    figures = [headline for run in counted if (headline := lab.headline(run)) is not None]
    name = next((headline[0] for run in runs if (headline := lab.headline(run)) is not None), "")
    return Repeated(
        lab,
        condition,
        name,
        tuple(runs),
        counted,
        tuple(value for its_name, value in figures if its_name == name),
    )
