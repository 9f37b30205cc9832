"""The points of a plan, counted or in order: a product of dimensions without excluded points."""

from __future__ import annotations

import itertools
import math
from collections import Counter
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
        """The number of points, computed from the masks: rows that allow the same exclusions are
        counted together."""
        counts = Counter({self._all: 1})
        for masks in self._masks:
            step: Counter[int] = Counter()
            for (mask, points), (other, rows) in itertools.product(
                counts.items(), Counter(masks).items()
            ):
                step[mask & other] += points * rows
            counts = step
        return counts[0]

    def __iter__(self) -> Iterator[Point]:
        names = [name for dimension in self.dimensions for name in dimension.names]
        rows: Iterator[tuple[tuple[Scalar, ...], ...]] = itertools.product(
            *(dimension.rows for dimension in self.dimensions)
        )
        if self.exclusions:
            masks = itertools.product(*self._masks)
            rows = itertools.compress(rows, (not self._excluded(one) for one in masks))
        for number, row in enumerate(rows, start=1):
            yield Point(number, dict(zip(names, itertools.chain.from_iterable(row), strict=True)))

    def _excluded(self, masks: tuple[int, ...]) -> int:
        left = self._all
        for mask in masks:
            left &= mask
        return left

    @property
    def _all(self) -> int:
        return (1 << len(self.exclusions)) - 1

    @cached_property
    def _masks(self) -> tuple[tuple[int, ...], ...]:
        """Per dimension and row, the exclusions that the row does not rule out, one bit each."""
        return tuple(
            tuple(self._mask(dimension, row) for row in dimension.rows)
            for dimension in self.dimensions
        )

    def _mask(self, dimension: Dimension, row: tuple[Scalar, ...]) -> int:
        mask = self._all
        for bit, exclusion in enumerate(self.exclusions):
            for name, value in zip(dimension.names, row, strict=True):
                if name in exclusion and value not in exclusion[name]:
                    mask &= ~(1 << bit)
        return mask
