"""The axes of a plan: their values, zipped axes, and exclusions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from labs.batches.axis_values import WrongValue, check_has_range, checked_value, size, values_of
from labs.batches.plan_source import PlanSource
from labs.batches.points import Dimension, Exclusion, Grid, Interval
from labs.batches.subject import Subject
from labs.drive.parameters.declare import Parameter, Scalar, shown, unknown
from labs.errors import BadInput

SEED, SEEDS, REPETITIONS = "SEED", "seeds", "repetitions"
ZIP, EXCLUDE = "zip", "exclude"
ENDS = {"from": "low", "to": "high"}
EXACT = 10**15
"""Numbers of points from this one on are printed as powers of ten."""


@dataclass(frozen=True)
class Axes:
    """What a plan says about each parameter, by notebook name, with the seeds last. `seed_key` is
    the key that gives the seeds."""

    source: PlanSource
    subject: Subject
    given: Mapping[str, Any]
    seed_key: str = SEED

    def key(self, name: str) -> str:
        """The plan's key that gives the values of a parameter."""
        return self.seed_key if name == SEED else name

    def grid(self, most_points: int) -> Grid:
        """The points. BadInput, with the line, for invalid values or names, or too many points.

        The number of points is checked before ranges are expanded.
        """
        groups = self._groups()
        self._check_product(groups, most_points)
        values = {name: self._values(name) for name in self.given}
        grid = Grid(
            tuple(
                Dimension(names, tuple(zip(*(values[name] for name in names), strict=True)))
                for names in groups
            ),
            tuple(self._exclusions()),
        )
        if not grid.count:
            raise self.source.complaint(
                "all points are excluded. Remove an exclusion, or add values to an axis", EXCLUDE
            )
        return grid

    def _size(self, name: str) -> int:
        try:
            return size(self.given[name])
        except BadInput as error:
            raise self.source.complaint(f"{name}: {error}", self.key(name)) from None

    def _groups(self) -> list[tuple[str, ...]]:
        """The names of each dimension: zipped ones together, and each of the others alone."""
        group_of: dict[str, tuple[str, ...]] = {}
        for index, names in enumerate(self.source.content.get(ZIP, [])):
            for position, name in enumerate(names):
                self._check_name(name, ZIP, index, position)
                if name in group_of or name in names[:position]:
                    raise self.source.complaint(
                        f"{name} is in zip twice. Remove one", ZIP, index, position
                    )
            sizes = {name: self._size(name) for name in names}
            if len(set(sizes.values())) > 1:
                text = ", ".join(f"{name} has {_describe(many)}" for name, many in sizes.items())
                raise self.source.complaint(
                    f"zipped axes differ in length: {text}. Give each the same number of values",
                    ZIP,
                    index,
                )
            group_of |= dict.fromkeys(names, tuple(names))
        return list(dict.fromkeys(group_of.get(name, (name,)) for name in self.given))

    def _check_name(self, name: str, *place: str | int) -> None:
        if name not in self.given:
            raise self.source.complaint(unknown(name, self.given, "parameter of the plan"), *place)

    def _check_product(self, groups: list[tuple[str, ...]], most_points: int) -> None:
        sizes = {names: self._size(names[0]) for names in groups}
        points = math.prod(sizes.values())
        if points > most_points:
            longest = max(sizes, key=sizes.__getitem__)
            factors = " x ".join(
                f"{' with '.join(names)} {_describe(many)}"
                for names, many in sizes.items()
                if many > 1
            )
            raise self.source.complaint(
                f"the plan has {_describe(points)} points ({factors}). Allowed: at most "
                f"{most_points:,}. Reduce the number of values of {longest[0]}, or combine axes "
                "with zip",
                self.key(longest[0]),
            )

    def _values(self, name: str) -> tuple[Scalar, ...]:
        with self._located(self.key(name)):
            return values_of(self.given[name], self.subject.parameters[name])

    def _exclusions(self) -> Iterator[Exclusion]:
        for number, exclusion in enumerate(self.source.content.get(EXCLUDE, [])):
            excluded: dict[str, frozenset[Scalar] | Interval] = {}
            for name, match in exclusion.items():
                self._check_name(name, EXCLUDE, number, name)
                with self._located(EXCLUDE, number, name):
                    excluded[name] = _match(match, self.subject.parameters[name])
            yield excluded

    @contextmanager
    def _located(self, *place: str | int) -> Iterator[None]:
        try:
            yield
        except WrongValue as error:
            index = () if error.index is None else (error.index,)
            raise self.source.complaint(str(error), *place, *index) from None


def _match(match: Any, parameter: Parameter) -> frozenset[Scalar] | Interval:
    """The values that an exclusion names, or the numbers between its ends."""
    if not isinstance(match, Mapping):
        return frozenset(values_of(match, parameter))
    check_has_range(parameter)
    interval = Interval(**{end: float(match[key]) for key, end in ENDS.items() if key in match})
    if not interval.low <= interval.high:
        raise WrongValue(
            f"from {shown(match.get('from'))} to {shown(match.get('to'))} excludes nothing. Write "
            "from no greater than to"
        )
    return interval


def axes_of(source: PlanSource, subject: Subject) -> Axes:
    """The axes of a plan that matches the schema; BadInput for a name that the lab does not have,
    and for seeds that are given twice."""
    values = {name: value for name, value in source.content.items() if name[0].isupper()}
    for name in values:
        if name not in subject.parameters:
            raise source.complaint(unknown(name, subject.parameters), name)
    keys = [key for key in (SEEDS, REPETITIONS) if key in source.content]
    if not keys:
        return Axes(source, subject, values)
    first: Any = values.pop(SEED, None)
    clash = keys[1:] or [SEED] * (first is not None)
    if len(keys) > 1 or (first is not None and keys == [SEEDS]) or isinstance(first, list | dict):
        raise source.complaint(f"{keys[0]} and {clash[0]} both give seeds. Remove one", clash[0])
    if keys == [SEEDS]:
        return Axes(source, subject, {**values, SEED: source.content[SEEDS]}, SEEDS)
    seed = subject.parameters[SEED]
    if first is None:
        first = subject.defaults.get(SEED, seed.default)
    try:
        low = int(checked_value(first, seed))
    except BadInput as error:
        raise source.complaint(str(error), SEED) from None
    high = low + int(source.content[REPETITIONS]) - 1
    seeds = {"from": low, "to": high, "step": 1} if high > low else low
    return Axes(source, subject, {**values, SEED: seeds}, REPETITIONS)


def _describe(many: int) -> str:
    return f"{many:,}" if many < EXACT else f"about 10^{math.log10(many):.0f}"
