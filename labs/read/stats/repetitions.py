"""Runs of one condition that were repeated: their figure, its interval, the run in the middle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from labs.read.lab import Lab
from labs.read.runs.run import Run
from labs.read.stats.bootstrap import Interval, of_median
from labs.read.stats.disturbance import disturbances


@dataclass(frozen=True)
class Repeated:
    """All runs of a condition. `figure` names what is compared ("" where the lab names nothing);
    `values` are those of the runs that count, in the order of the runs."""

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
        """Of the median; None for too few runs that count, or for no figure."""
        return of_median(self.values)

    @property
    def why(self) -> tuple[str, ...]:
        """What disturbed the runs that do not count."""
        return tuple(dict.fromkeys(what for run in self.runs for what in disturbances(run)))

    @property
    def middle(self) -> Run:
        """The run in the middle of those that count (of all, if none does)."""
        among = self.counted or self.runs
        valued = [
            (found[1], place)
            for place, run in enumerate(among)
            if (found := self.lab.headline(run)) is not None
        ]
        return among[sorted(valued)[(len(valued) - 1) // 2][1]] if valued else among[0]

    def as_json(self) -> dict[str, Any]:
        """The condition as plain data; null where there is no interval."""
        known = self.interval
        return {
            "condition": self.condition,
            "figure": self.figure or None,
            "middle": known and known.middle,
            "low": known and known.low,
            "high": known and known.high,
            "width_pct": known and known.width_pct,
            "runs": len(self.runs),
            "counted": len(self.counted),
            "disturbed": self.disturbed,
            "disturbances": list(self.why),
        }


def repeated(lab: Lab, runs: Iterable[Run]) -> tuple[Repeated, ...]:
    """The conditions of some runs of a lab, in the order in which they first come."""
    return tuple(_repeated(lab, name, found) for name, found in _by_condition(runs).items())


def in_the_middle(lab: Lab, runs: Iterable[Run]) -> tuple[Run, ...]:
    """A run for each condition: the only one, or of repetitions the one in the middle."""
    return tuple(
        found[0] if len(found) == 1 else _repeated(lab, name, found).middle
        for name, found in _by_condition(runs).items()
    )


def _by_condition(runs: Iterable[Run]) -> dict[str, list[Run]]:
    together: dict[str, list[Run]] = {}
    for run in runs:
        together.setdefault(run.condition, []).append(run)
    return together


def _repeated(lab: Lab, condition: str, runs: Sequence[Run]) -> Repeated:
    counted = tuple(run for run in runs if not disturbances(run))
    figures = [found for run in counted if (found := lab.headline(run)) is not None]
    name = next((found[0] for run in runs if (found := lab.headline(run)) is not None), "")
    return Repeated(
        lab,
        condition,
        name,
        tuple(runs),
        counted,
        tuple(value for its_name, value in figures if its_name == name),
    )
