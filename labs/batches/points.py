"""The points of a plan: a product of dimensions without excluded points."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from labs.drive.parameters.declare import Scalar


@dataclass(frozen=True)
class Point:
    """One point: its number, from 1 without gaps, and the plan's values by notebook name."""

    number: int
    values: Mapping[str, Scalar]


@dataclass(frozen=True)
class Dimension:
    """One or several names that advance together, and the rows of their values."""

    names: tuple[str, ...]
    rows: Sequence[tuple[Scalar, ...]]


@dataclass(frozen=True)
class Interval:
    """The numbers from `low` to `high`, inclusive."""

    low: float = -math.inf
    high: float = math.inf

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int | float) and self.low <= value <= self.high


Exclusion = Mapping[str, frozenset[Scalar] | Interval]
"""Values by notebook name. A point matches if each of its values with these names is included."""


@dataclass(frozen=True)
class Grid:
    """The product of the dimensions, without the points that match an exclusion. The last dimension
    varies fastest."""

    dimensions: tuple[Dimension, ...]
    exclusions: tuple[Exclusion, ...] = field(default=())

    @property
    def product(self) -> int:
        """The number of points of the product, excluded ones included."""
        return math.prod(len(dimension.rows) for dimension in self.dimensions)

    @cached_property
    def count(self) -> int:
        """The number of points."""
        return sum(1 for _ in self._rows()) if self.exclusions else self.product

    def __iter__(self) -> Iterator[Point]:
        for number, values in enumerate(self._rows(), start=1):
            yield Point(number, values)

    def _rows(self) -> Iterator[Mapping[str, Scalar]]:
        names = [name for dimension in self.dimensions for name in dimension.names]
        for row in itertools.product(*(dimension.rows for dimension in self.dimensions)):
            values = dict(zip(names, itertools.chain.from_iterable(row), strict=True))
            if not any(_matches(values, exclusion) for exclusion in self.exclusions):
                yield values


def _matches(values: Mapping[str, Scalar], exclusion: Exclusion) -> bool:
    return all(values[name] in match for name, match in exclusion.items())
