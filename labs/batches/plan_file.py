"""Plans of batches: `read_plan` checks a file and returns its points.

A plan is YAML or JSON. Names in capitals are parameters, exactly as in a file for papermill's `-f`,
so such a file is a plan with one point. Names in lower case are keys of the plan::

    lab: buffers                          # or a file ./mylab.py, or notebook: NAME.ipynb
    RATE_MBIT: 100                        # one value
    DELAY_MS: [10, 50, 200]               # a list of values: an axis
    BUFFER_MIB: {from: 0.1, to: 50, steps: 12, scale: log}
    KERNEL: ["6.1", "7.2"]
    zip: [[DELAY_MS, TRANSFER_MIB]]       # axes that advance together; all others form a product
    exclude: [{KERNEL: "7.2", DELAY_MS: {from: 100}}]
    repetitions: 3                        # or seeds: [1, 5, 9]

In virtual time a repeated run is identical to the byte, so a repetition is a run with another seed:
`repetitions: 3` means the seeds SEED, SEED + 1 and SEED + 2, and `seeds` lists them. Relative paths
are resolved in the plan's folder first, then in the current one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from labs.batches.axes import Refuse, match_of, size, values_of
from labs.batches.plan_source import PlanSource, check_shape, read_source
from labs.batches.subject import Subject, subject_of
from labs.drive.parameters.declare import LabParameters, Scalar, shown, unknown
from labs.errors import BadInput, LabError

SEED, SEEDS, REPETITIONS = "SEED", "seeds", "repetitions"
ZIP, EXCLUDE = "zip", "exclude"
MOST_POINTS = 1_000_000
"""The maximum number of points of a product, before exclusions."""
EXACT = 10**15
"""Numbers of points from this one on are printed as powers of ten."""


@dataclass(frozen=True)
class Point:
    """One point: its number, from 1 without gaps, and the plan's values by notebook name."""

    number: int
    values: Mapping[str, Scalar]


@dataclass(frozen=True)
class PlanFile:
    """A plan: its subject, and what it says about each parameter, by notebook name, with the seeds
    last. `seed_key` is the key that gives the seeds."""

    source: PlanSource
    subject: Subject
    given: Mapping[str, Any]
    seed_key: str = SEED

    @property
    def path(self) -> Path:
        return self.source.path

    @cached_property
    def values(self) -> Mapping[str, tuple[Scalar, ...]]:
        """The checked values of each parameter; BadInput for one that is not allowed."""
        parameters = self.subject.parameters
        return {
            name: values_of(given, parameters[name], self.refuse(self._key(name)))
            for name, given in self.given.items()
        }

    @cached_property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The parameters that vary: zipped ones together, and each of the others alone."""
        group_of: dict[str, tuple[str, ...]] = {}
        for index, names in enumerate(self.source.content.get(ZIP, [])):
            refuse = self.refuse(ZIP, index)
            for position, name in enumerate(names):
                self._check_name(name, ZIP, index, position)
                if name in group_of or name in names[:position]:
                    raise refuse(f"{name} is in zip twice. Remove one", position)
            sizes = {name: self._size(name) for name in names}
            if len(set(sizes.values())) > 1:
                text = ", ".join(f"{name} has {_describe(many)}" for name, many in sizes.items())
                raise refuse(
                    f"zipped axes differ in length: {text}. Give each the same number of values"
                )
            group_of |= dict.fromkeys(names, tuple(names))
        return tuple(dict.fromkeys(group_of.get(name, (name,)) for name in self.given))

    @cached_property
    def exclusions(self) -> tuple[Mapping[str, Callable[[Any], bool]], ...]:
        """Whether a value is excluded, by name; a point is if all values with these names are."""
        every = []
        for number, matches in enumerate(self.source.content.get(EXCLUDE, [])):
            for name in matches:
                self._check_name(name, EXCLUDE, number, name)
            parameters = self.subject.parameters
            every.append(
                {
                    name: match_of(match, parameters[name], self.refuse(EXCLUDE, number, name))
                    for name, match in matches.items()
                }
            )
        return tuple(every)

    @property
    def product(self) -> int:
        """The number of points, excluded ones included."""
        return math.prod(self._size(names[0]) for names in self.groups)

    @cached_property
    def count(self) -> int:
        """The number of points."""
        if self.exclusions:
            return sum(1 for _ in self._rows())
        return math.prod(len(self.values[names[0]]) for names in self.groups)

    @property
    def points(self) -> Iterator[Point]:
        """The points, in the order of the file; the last axis varies fastest."""
        return itertools.starmap(Point, enumerate(self._rows(), start=1))

    @property
    def varied(self) -> tuple[str, ...]:
        """The notebook names of the parameters with several values, in the order of the axes."""
        return tuple(name for names in self.groups if self._size(names[0]) > 1 for name in names)

    def parameters_of(self, point: Point) -> LabParameters:
        """The lab's parameters at a point; BadInput, worded by `refusal`, for a combination of
        values that the lab refuses."""
        try:
            return self.subject.with_values(point.values)
        except LabError as error:
            raise self.refusal(point, error) from error

    def refusal(self, point: Point, error: LabError) -> LabError:
        """An error at a point, with the plan's name, a line, and the point's varied values."""
        names = self.varied
        values = ", ".join(f"{name} = {shown(point.values[name])}" for name in names)
        text = f"point {point.number}{f' ({values})' if values else ''}: {error}"
        return self.source.located(type(error)(text), *map(self._key, names[:1]))

    def check(self) -> None:
        """BadInput, with the line, for invalid values or names, and too many points or none. The
        number of points is checked before ranges are expanded."""
        if self.product > MOST_POINTS:
            sizes = {names: self._size(names[0]) for names in self.groups}
            longest = max(sizes, key=sizes.__getitem__)[0]
            factors = " x ".join(
                f"{' with '.join(names)} {_describe(many)}"
                for names, many in sizes.items()
                if many > 1
            )
            raise self.source.complaint(
                f"the plan has {_describe(self.product)} points ({factors}). Allowed: at most "
                f"{MOST_POINTS:,}. Reduce the number of values of {longest}, or combine axes with "
                "zip",
                self._key(longest),
            )
        if not self.count:
            raise self.source.complaint(
                "all points are excluded. Remove an exclusion, or add values to an axis", EXCLUDE
            )

    def _rows(self) -> Iterator[Mapping[str, Scalar]]:
        names = list(itertools.chain.from_iterable(self.groups))
        every = (zip(*(self.values[name] for name in of), strict=True) for of in self.groups)
        for row in itertools.product(*every):
            values = dict(zip(names, itertools.chain.from_iterable(row), strict=True))
            if not any(
                all(matches(values[name]) for name, matches in exclusion.items())
                for exclusion in self.exclusions
            ):
                yield values

    def _key(self, name: str) -> str:
        """The plan's key that gives the values of a parameter."""
        return self.seed_key if name == SEED else name

    def refuse(self, *place: str | int) -> Refuse:
        """Makes the errors for a place in the plan."""
        return lambda text, *inside: self.source.complaint(text, *place, *inside)

    def _size(self, name: str) -> int:
        try:
            return size(self.given[name])
        except BadInput as error:
            raise self.source.complaint(f"{name}: {error}", self._key(name)) from None

    def _check_name(self, name: str, *place: str | int) -> None:
        if name not in self.given:
            raise self.source.complaint(unknown(name, self.given, "parameter of the plan"), *place)


def read_plan(path: Path, *, subject: str | None = None) -> PlanFile:
    """Read and check a plan; `subject` names the lab or the notebook if the plan does not.

    BadInput, in one line with the plan's name and line, for every problem in it. Nothing is
    executed, except a lab in a file of the user's own.
    """
    source = read_source(path)
    check_shape(source)
    about = subject_of(source, subject)
    values = {name: value for name, value in source.content.items() if name[0].isupper()}
    for name in values:
        if name not in about.parameters:
            raise source.complaint(unknown(name, about.parameters), name)
    plan = _with_seeds(PlanFile(source, about, values))
    plan.check()
    return plan


def _with_seeds(plan: PlanFile) -> PlanFile:
    """The plan with its seeds as the last axis; BadInput for seeds that are given twice."""
    content, values = plan.source.content, dict(plan.given)
    is_first = REPETITIONS in content and not isinstance(content.get(SEED), list | dict)
    keys = [key for key in (SEEDS, REPETITIONS, *[SEED] * (not is_first)) if key in content]
    if len(keys) > 1:
        raise plan.source.complaint(f"{keys[0]} and {keys[1]} both give seeds. Remove one", keys[1])
    if keys == [SEEDS]:
        return replace(plan, given={**values, SEED: content[SEEDS]}, seed_key=SEEDS)
    if keys != [REPETITIONS]:
        return plan
    seed = plan.subject.parameters[SEED]
    first = values.pop(SEED, plan.subject.defaults.get(SEED, seed.default))
    low = int(values_of(first, seed, plan.refuse(SEED))[0])
    high = low + content[REPETITIONS] - 1
    seeds = {"from": low, "to": high, "step": 1} if high > low else low
    return replace(plan, given={**values, SEED: seeds}, seed_key=REPETITIONS)


def _describe(many: int) -> str:
    return f"{many:,}" if many < EXACT else f"about 10^{math.log10(many):.0f}"
