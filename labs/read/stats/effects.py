"""The effects of settings within a study: ratios of two conditions, with bootstrap intervals.

Each condition is compared with one that differs from it in a single factor, by their runs on one
kernel. A factorial plan also shows interactions of two factors, which are ratios of such ratios.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from labs.read.parse.server_report import Setting
from labs.read.runs.run import Run
from labs.read.stats.repetitions import Interval, Repeated, of_interaction, of_ratio, on_one_kernel


@dataclass(frozen=True)
class Factor:
    """A factor: the conditions that change it, each with the one that it is compared with, and the
    setting as it is read back, if that has another name."""

    name: str
    pairs: Mapping[str, str]
    setting: str = ""


@dataclass(frozen=True)
class Effect:
    """The ratios of a condition's figures to those of another one; None without an interval.

    `effective` is False if the setting that the condition changes cannot be applied on this
    machine; `because` says why. `beside` names a second difference between the two conditions that
    the machine forces.
    """

    factor: str
    condition: str
    against: str
    effective: bool
    because: str
    beside: str
    ratios: Mapping[str, Interval | None]

    def as_json(self) -> dict[str, Any]:
        """The effect as plain data."""
        values = {name: value for name, value in vars(self).items() if name != "ratios"}
        return values | {name: ratio and _as_json(ratio) for name, ratio in self.ratios.items()}


@dataclass(frozen=True)
class Interaction:
    """Whether the effect of one setting depends on another one: its effect `alone` and `together`
    with the other, and the ratio of the second to the first (1: independent)."""

    name: str
    alone: Effect
    together: Effect
    ratio: Interval

    @property
    def matters(self) -> bool:
        """Whether the interval of the ratio excludes 1."""
        return not self.ratio.low <= 1 <= self.ratio.high

    def as_json(self) -> dict[str, Any]:
        """The interaction as plain data."""
        return {**_as_json(self.ratio), "matters": self.matters}


@dataclass(frozen=True)
class Comparisons:
    """What the conditions of a lab show about its factors.

    The first of `columns` decides interactions, which have four conditions each: neither setting,
    the first, the second, both. `read_back` are the settings of a run; where only one of two
    conditions has the setting `beside` as requested, that is a second difference between them.
    """

    columns: Sequence[str]
    factors: Sequence[Factor]
    interactions: Mapping[str, Sequence[str]]
    read_back: Callable[[Run], Iterable[Setting]] = field(repr=False)
    beside: str = ""

    def effects_of(self, repeated: Iterable[Repeated]) -> tuple[Effect, ...]:
        """The effects that the conditions of a study show, in the order of the factors."""
        by_name = {some.condition: some for some in repeated}
        return tuple(
            self._effect(factor, *both)
            for factor in self.factors
            for name, against in factor.pairs.items()
            if name in by_name
            and against in by_name
            and (both := on_one_kernel([by_name[name], by_name[against]]))
        )

    def interactions_of(self, repeated: Iterable[Repeated]) -> tuple[Interaction, ...]:
        """The interactions that they show; none with too few undisturbed runs."""
        by_name = {some.condition: some for some in repeated}
        factors = {factor.name: factor for factor in self.factors}
        interactions = []
        for name, names in self.interactions.items():
            four = on_one_kernel(by_name[condition] for condition in names if condition in by_name)
            if len(four) != len(names):
                continue
            if ratio := of_interaction(*(some.column(self.columns[0]) for some in four)):
                factor = factors[name.partition(" and ")[0]]
                alone = self._effect(factor, four[1], four[0])
                together = self._effect(factor, four[3], four[2])
                interactions.append(Interaction(name, alone, together, ratio))
        return tuple(interactions)

    def settings_of(self, repeated: Iterable[Repeated]) -> Iterator[dict[str, Any]]:
        """One row per setting of a condition: requested, found, and whether it was applied."""
        for some in repeated:
            for setting in self.read_back(some.middle):
                yield {"condition": some.condition, **vars(setting)}

    def _effect(self, factor: Factor, over: Repeated, under: Repeated) -> Effect:
        ratios = {name: of_ratio(over.column(name), under.column(name)) for name in self.columns}
        setting = factor.setting or factor.name
        because = self._not_applied(over, setting)
        is_other = setting != self.beside and not self._not_applied(under, self.beside)
        beside = self._not_applied(over, self.beside) if is_other else ""
        names = factor.name, over.condition, under.condition
        return Effect(*names, not because, because or "", beside or "", ratios)

    def _not_applied(self, repeated: Repeated, setting: str) -> str | None:
        """Why a setting was not applied in some run of a condition; None if it was in all."""
        settings = (each for run in repeated.runs for each in self.read_back(run))
        return next((s.because for s in settings if s.factor == setting and not s.effective), None)


def _as_json(ratio: Interval) -> dict[str, float]:
    return {"ratio": ratio.middle, "low": ratio.low, "high": ratio.high}
