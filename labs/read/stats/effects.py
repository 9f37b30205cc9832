"""The effects of settings within a study: ratios of two conditions, with bootstrap intervals.

Each condition is compared with one that differs from it in a single factor, by their runs on one
kernel. A factorial plan also shows interactions of two factors, which are ratios of such ratios.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from labs.read.parse.reports import Setting
from labs.read.runs.run import Run
from labs.read.stats.repetitions import Interval, Repeated, of_interaction, of_ratio, on_one_kernel

NOT_APPLIED, TOO_FEW = "not applied", "too few runs"


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

    @property
    def pair(self) -> tuple[str, str, str]:
        """What is compared: factor, condition, and the one without it."""
        return self.factor, self.condition, self.against

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

    The first of `columns`, which have names, decides interactions; these have four conditions each:
    neither setting, the first, the second, both. `read_back` are the settings of a run. Where only
    one of two conditions has the setting `beside` as requested, that is a second difference between
    them, `beside_in_words`. `what` is what the figures measure.
    """

    what: str
    columns: Mapping[str, str]
    factors: Sequence[Factor]
    interactions: Mapping[str, Sequence[str]]
    read_back: Callable[[Run], Iterable[Setting]] = field(repr=False)
    beside: str = ""
    beside_in_words: str = ""

    @property
    def headline(self) -> str:
        """The first column."""
        return next(iter(self.columns))

    def effects_of(self, repeated: Iterable[Repeated]) -> tuple[Effect, ...]:
        """The effects that the conditions of a study show, in the order of the factors."""
        by_name = {each.condition: each for each in repeated}
        return tuple(
            self._effect(factor, *both)
            for factor in self.factors
            for pair in factor.pairs.items()
            if by_name.keys() >= {*pair} and (both := on_one_kernel(by_name[name] for name in pair))
        )

    def interactions_of(self, repeated: Iterable[Repeated]) -> Iterator[Interaction]:
        """The interactions that they show; none with too few undisturbed runs."""
        by_name = {each.condition: each for each in repeated}
        factors = {factor.name: factor for factor in self.factors}
        for name, names in self.interactions.items():
            four = on_one_kernel(by_name[condition] for condition in names if condition in by_name)
            if len(four) != len(names):
                continue
            if ratio := of_interaction(*(each.column(self.headline) for each in four)):
                factor = factors[name.partition(" and ")[0]]
                alone, together = (self._effect(factor, four[n + 1], four[n]) for n in (0, 2))
                yield Interaction(name, alone, together, ratio)

    def settings_of(self, repeated: Iterable[Repeated]) -> Iterator[dict[str, Any]]:
        """One row per setting of a condition: requested, as read back, and whether it was
        applied."""
        for each in repeated:
            for setting in self.read_back(each.middle):
                yield {"condition": each.condition, **vars(setting)}

    def report(self, repeated: Sequence[Repeated]) -> dict[str, Any]:
        """Effects, interactions and settings as plain data; `remarks` says the same in lines."""
        effects, pairs = self.effects_of(repeated), [*self.interactions_of(repeated)]
        of_effects = f"effects on the {self.what}, as ratios with 95 % bootstrap intervals:"
        remarks = {
            of_effects: map(self.describe_effect, effects),
            "interactions of two settings:": map(self.describe_interaction, pairs),
        }
        lines = {head: [f"  {text}." for text in texts] for head, texts in remarks.items()}
        return {
            "effects": [effect.as_json() for effect in effects],
            "interactions": {pair.name: pair.as_json() for pair in pairs},
            "settings": [*self.settings_of(repeated)],
            "remarks": [
                line for title, below in lines.items() if below for line in ("", title, *below)
            ],
        }

    def describe_headline(self, effect: Effect) -> str:
        """The ratio of the first column with its interval, for a table; or why there is none."""
        ratio = effect.ratios[self.headline]
        if not effect.effective:
            return f"{NOT_APPLIED} here"
        if ratio is None:
            return TOO_FEW
        return describe_ratio(ratio) + (f"; {self.beside_in_words}" if effect.beside else "")

    def describe_effect(self, effect: Effect) -> str:
        """An effect as a sentence."""
        text = f"{effect.factor}: {effect.condition} against {effect.against}: "
        ratio, name = effect.ratios[self.headline], self.columns[self.headline]
        if ratio is None:
            text += "unknown, because too few runs were undisturbed"
        text += ", ".join(
            f"{describe_ratio(ratios)} times the {words}"
            for column, words in self.columns.items()
            if words and ratio and (ratios := effect.ratios[column])
        )
        if not effect.effective:
            return f"{text}. The setting was not applied here ({effect.because})"
        if effect.beside:
            text += f". In addition, {self.beside_in_words} ({effect.beside})"
        if ratio and ratio.low <= 1 <= ratio.high:
            return f"{text}. The interval includes 1: no effect on the {name} is shown"
        return text

    def describe_interaction(self, pair: Interaction) -> str:
        """An interaction as a sentence."""
        phrases = ", and ".join(
            f"{effect.condition} has {ratio.middle:.3g} times the {self.columns[self.headline]} of "
            f"{effect.against}"
            for effect in (pair.alone, pair.together)
            if (ratio := effect.ratios[self.headline])
        )
        none = "The interval includes 1: no interaction is shown"
        return (
            f"{pair.name}: {phrases}; the ratio of these effects is "
            f"{describe_ratio(pair.ratio)}. {'The two settings interact' if pair.matters else none}"
        )

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


def describe_ratio(ratio: Interval) -> str:
    """A ratio with its interval."""
    return f"{ratio.middle:#.3g} ({ratio.low:#.3g} to {ratio.high:#.3g})"
