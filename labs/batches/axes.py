"""The values of one axis of a plan: a value, a list or a range, counted before it is expanded."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from labs.drive.parameters.declare import WORDS, Parameter, Scalar, shown
from labs.errors import BadInput

Refuse = Callable[..., BadInput]
"""Makes the error for a text about an axis, and the index of a value in its list, if any."""
DIGITS = 6
"""Significant digits of values inside a range, so that values and keys are equal everywhere."""


def size(given: object) -> int:
    """The number of values of a value, a list or a range, without expanding it; BadInput for a
    range with fewer than two values."""
    if not isinstance(given, Mapping):
        return len(given) if isinstance(given, list) else 1
    low, high, step = given["from"], given["to"], given.get("step")
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise BadInput(
            f"from {shown(low)} to {shown(high)} is not a range. Allowed: two finite numbers, the "
            "first less than the second"
        )
    if step is None:
        return int(given["steps"])
    steps = 1 + (_exact(high) - _exact(low)) // _exact(step) if math.isfinite(step) else 1
    if steps < 2:
        raise BadInput(
            f"a step of {shown(step)} from {shown(low)} to {shown(high)} has no second value. "
            "Write a smaller step, or one value"
        )
    return steps


def _exact(number: float) -> Fraction:
    return Fraction(repr(number))


def _in_range(ends: Mapping[str, Any], whole: bool) -> Iterator[float]:
    """The values of a range. Both ends, and values that are a step apart, are exact; all others are
    rounded to DIGITS significant digits, or if `whole` to a whole number."""
    low, high, many = ends["from"], ends["to"], size(ends)
    if "step" in ends:
        step = _exact(ends["step"])
        yield from (float(_exact(low) + number * step) for number in range(many))
        return
    yield low
    for number in range(1, many - 1):
        share = Fraction(number, many - 1)
        if ends.get("scale") == "log":
            span = math.log(high) - math.log(low)
            value = math.exp(math.log(low) + span * float(share))
        else:
            value = float(_exact(low) + (_exact(high) - _exact(low)) * share)
        rounded = float(f"{value:.{DIGITS}g}")
        yield round(rounded) if whole else rounded
    yield high


def values_of(given: object, parameter: Parameter, refuse: Refuse) -> tuple[Scalar, ...]:
    """The checked values of an axis; BadInput, made by `refuse`, for a value that the parameter
    does not allow, a repeated value, and a range of text."""
    name, whole = parameter.notebook_name, parameter.kind is int
    listed, is_range = given if isinstance(given, list) else [given], isinstance(given, Mapping)
    if isinstance(given, Mapping):
        _check_has_range(parameter, refuse)
        numbers = _in_range(given, whole)
        listed = [int(it) if whole and float(it).is_integer() else it for it in numbers]
    values: dict[Scalar, None] = {}
    for index, value in enumerate(listed):
        place = () if is_range else (index,)
        try:
            checked = parameter.validate(value, name)
        except BadInput as error:
            raise refuse(str(error), *place) from None
        if checked in values:
            remedy = "Write fewer steps, or list the values" if is_range else "Remove one"
            raise refuse(f"{name} has the value {shown(value)} twice. {remedy}", *place)
        values[checked] = None
    return tuple(values)


def match_of(given: object, parameter: Parameter, refuse: Refuse) -> Callable[[Any], bool]:
    """Whether a value is among those that an exclusion names: values, or numbers between ends."""
    if not isinstance(given, Mapping):
        return frozenset(values_of(given, parameter, refuse)).__contains__
    _check_has_range(parameter, refuse)
    low, high = float(given.get("from", -math.inf)), float(given.get("to", math.inf))
    if not low <= high:
        text = f"from {shown(low)} to {shown(high)} excludes nothing"
        raise refuse(f"{text}. Write from no greater than to")
    return lambda value: bool(low <= value <= high)


def _check_has_range(parameter: Parameter, refuse: Refuse) -> None:
    if parameter.kind not in (int, float):
        raise refuse(
            f"{parameter.notebook_name} is {WORDS[parameter.kind]} and cannot have a range. "
            "List its values"
        )
