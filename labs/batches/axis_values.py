"""The values of one axis: a value, a list or a range, counted before they are expanded."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from labs.drive.parameters.declare import WORDS, Parameter, Scalar, plain, shown
from labs.errors import BadInput

DIGITS = 6
"""Significant digits of values inside a range, so that values and keys are equal everywhere."""


@dataclass(frozen=True)
class Range:
    """A range of a plan: `steps` values from `low` to `high`, on a logarithmic scale with `log`; or
    values that are `step` apart, in which case `steps` is their number."""

    low: float
    high: float
    steps: int
    step: float | None = None
    log: bool = False

    @property
    def values(self) -> Iterator[float]:
        """The values. Both ends, and values that are `step` apart, are exact; all others are
        rounded to DIGITS significant digits."""
        low, high = Fraction(repr(self.low)), Fraction(repr(self.high))
        if self.step is not None:
            step = Fraction(repr(self.step))
            yield from (float(low + number * step) for number in range(self.steps))
            return
        yield self.low
        for number in range(1, self.steps - 1):
            share = Fraction(number, self.steps - 1)
            if self.log:
                ends = math.log(self.low), math.log(self.high)
                value = math.exp(ends[0] + (ends[1] - ends[0]) * float(share))
            else:
                value = float(low + (high - low) * share)
            yield float(f"{value:.{DIGITS}g}")
        yield self.high


def read_range(ends: Mapping[str, Any]) -> Range:
    """The range in a mapping that matches the schema; BadInput for fewer than two values."""
    low, high, step = ends["from"], ends["to"], ends.get("step")
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise BadInput(
            f"from {shown(low)} to {shown(high)} is not a range. Allowed: two finite numbers, the "
            "first less than the second"
        )
    if step is None:
        return Range(low, high, int(ends["steps"]), log=ends.get("scale") == "log")
    span = Fraction(repr(high)) - Fraction(repr(low))
    if not (math.isfinite(step) and Fraction(repr(step)) <= span):
        raise BadInput(
            f"a step of {shown(step)} from {shown(low)} to {shown(high)} has no second value. "
            "Write a smaller step, or one value"
        )
    return Range(low, high, span // Fraction(repr(step)) + 1, step)


def size(values: object) -> int:
    """The number of values of a value, a list or a range, without expanding it."""
    if isinstance(values, Mapping):
        return read_range(values).steps
    return len(values) if isinstance(values, list) else 1


class WrongValue(BadInput):
    """A value of an axis that cannot be used; `index` is its place in a list."""

    def __init__(self, error: object, index: int | None = None) -> None:
        super().__init__(str(error))
        self.index = index


def values_of(values: object, parameter: Parameter) -> tuple[Scalar, ...]:
    """The checked values of an axis.

    WrongValue for a value that the parameter does not allow, a repeated value, and a range of text.
    """
    if isinstance(values, Mapping):
        return _in_range(read_range(values), parameter)
    places: dict[Scalar, int] = {}
    for index, value in enumerate(values if isinstance(values, list) else [values]):
        checked = checked_value(value, parameter, index)
        if checked in places:
            raise WrongValue(
                f"{parameter.notebook_name} has the value {shown(value)} twice. Remove one", index
            )
        places[checked] = index
    return tuple(places)


def checked_value(value: object, parameter: Parameter, index: int | None = None) -> Scalar:
    """A value converted to the parameter's kind; WrongValue if it is not allowed."""
    try:
        return parameter.validate(value, parameter.notebook_name)
    except BadInput as error:
        raise WrongValue(error, index) from None


def check_has_range(parameter: Parameter) -> None:
    """WrongValue for a parameter that is not a number."""
    if parameter.kind not in (int, float):
        raise WrongValue(
            f"{parameter.notebook_name} is {WORDS[parameter.kind]} and cannot have a range. "
            "List its values"
        )


def _in_range(numbers: Range, parameter: Parameter) -> tuple[Scalar, ...]:
    check_has_range(parameter)
    values: list[Scalar] = []
    for number in numbers.values:
        between = numbers.step is None and number not in (numbers.low, numbers.high)
        whole = parameter.kind is int and (between or float(number).is_integer())
        value = checked_value(round(number) if whole else number, parameter)
        if values and not values[-1] < value:  # type: ignore[operator]
            raise WrongValue(
                f"values {len(values)} and {len(values) + 1} of the range of "
                f"{parameter.notebook_name} are equal: {plain(value)}. "
                "Write fewer steps, or list the values"
            )
        values.append(value)
    return tuple(values)
