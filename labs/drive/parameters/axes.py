"""Parameters with several values: checked lists, and the points of their product."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, TypeVar

from labs.drive.parameters.declare import (
    LabParameters,
    Parameter,
    Scalar,
    Spell,
    declared,
    describe_value,
    field_name,
    shown,
    unknown,
)
from labs.errors import BadInput

P = TypeVar("P", bound=LabParameters)
Axes = Mapping[str, tuple[Scalar, ...]]
"""The values of each varied parameter, by field name, in the order in which they vary."""
KERNEL = "kernel"
"""Its value may be a list already: `--kernel 6.1,6.12`."""
MOST_POINTS = 10_000


def axes(cls: type[Any], over: Mapping[str, object], *, spell: Spell = field_name) -> Axes:
    """The lists of `over` (by field name) with checked values, without duplicates.

    BadInput, in one line, for an unknown name, a parameter that takes only one value, an empty
    list, a value that is not allowed, and a product of more than MOST_POINTS points. `spell`
    returns a parameter's name as the user wrote it.
    """
    parameters = declared(cls)
    if not isinstance(over, Mapping):
        raise BadInput(
            f"over = {shown(over)} is not a dict. Write lists by name: "
            'over={"delay_ms": [10, 50]}'
        )
    for name in over:
        if name not in parameters:
            raise BadInput(unknown(str(name), parameters))
    lists = {name: _listed(parameters[name], values, spell) for name, values in over.items()}
    check_product({spell(parameters[name]): values for name, values in lists.items()})
    return {name: _checked(parameters[name], values, spell) for name, values in lists.items()}


def is_list(value: object) -> bool:
    """Whether a value has several elements: a list, a tuple, a range or an array."""
    return isinstance(value, list | tuple | range) or getattr(value, "ndim", 0) > 0


def _listed(parameter: Parameter, values: Any, spell: Spell) -> Sequence[object]:
    spelt = spell(parameter)
    if not parameter.several:
        raise BadInput(f"{spelt} takes one value, not a list; allowed: {parameter.allowed}")
    if not is_list(values):
        raise BadInput(f"{describe_value(spelt, values)} is not a list. Write [{shown(values)}]")
    listed: Sequence[object] = values.tolist() if hasattr(values, "tolist") else values
    if not len(listed):
        raise BadInput(f"{spelt} is an empty list; allowed per value: {parameter.allowed}")
    return listed


def check_product(lists: Mapping[str, Sequence[object]]) -> None:
    """BadInput for more than MOST_POINTS points."""
    count = math.prod(map(len, lists.values()))
    if count > MOST_POINTS:
        lengths = " x ".join(f"{len(values)} values of {name}" for name, values in lists.items())
        raise BadInput(
            f"{lengths} are {count} points; allowed: {MOST_POINTS}. "
            "Shorten a list, or study the parts one after the other"
        )


def _checked(parameter: Parameter, values: Iterable[object], spell: Spell) -> tuple[Scalar, ...]:
    checked = [parameter.validate(value, spell(parameter)) for value in values]
    for value in checked:
        if parameter.name == KERNEL and "," in str(value):
            raise BadInput(
                f"{describe_value(spell(parameter), value)} is several kernels. Write one per value"
            )
    return tuple(dict.fromkeys(checked))


def split(parameter: Parameter, text: str) -> list[str] | None:
    """The comma-separated values in a flag's text; None if it is a single value.

    A list of kernels is not split, because a study reads it itself. BadInput for an empty value.
    """
    if (
        not parameter.several
        or parameter.kind is bool
        or parameter.name == KERNEL
        or "," not in text
    ):
        return None
    values = [value.strip() for value in text.split(",")]
    if not all(values):
        raise BadInput(
            f"{describe_value(parameter.flag, text)} has an empty value; "
            f"allowed: values separated by single commas, each {parameter.allowed}"
        )
    return values


def with_kernels(p: LabParameters, axes: Axes) -> Axes:
    """The axes; if `p` names several kernels and no axis has them, they become a further axis."""
    if KERNEL in axes or len(p.kernels) < 2:
        return axes
    varied = {**axes, KERNEL: p.kernels}
    check_product(varied)
    return varied


def points(p: P, axes: Axes) -> tuple[P, ...]:
    """The parameters of every point; the values of the last axis vary fastest."""
    each = (dict[str, Any](zip(axes, values, strict=True)) for values in product(*axes.values()))
    return tuple(dataclasses.replace(p, **values) for values in each)
