"""Parameters that a condition does not use: with their default it would be the same condition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any

from labs.drive.parameters.axes import Axes
from labs.drive.parameters.declare import LabParameters, Scalar, declared, plain
from labs.drive.record.seal import canonical
from labs.errors import LabError
from labs.guest.condition import Condition
from labs.guest.testbed.link import Link
from labs.read.display.provenance import asked
from labs.read.lab import Lab

OF_A_LINK = frozenset(field.name for field in fields(Link))

Unused = Mapping[str, Scalar]
"""The parameters that a condition does not use, with the values that were requested."""


def unused(lab: Lab, p: LabParameters, conditions: Iterable[str]) -> dict[str, Unused]:
    """Of each of these conditions the lab's own parameters that it does not use, if they do not
    have their usual values. Parameters that none of the lab's conditions uses are left out: they
    are not for runs."""
    names = tuple(conditions)
    usual = p.testbed_defaults(p.testbed, p.size)
    by_condition: dict[str, dict[str, Scalar]] = {name: {} for name in names}
    for parameter in declared(type(p)).values():
        value = getattr(p, parameter.name)
        if parameter.name in declared(LabParameters) or value in (
            parameter.default,
            usual.get(parameter.name),
        ):
            continue
        usually: dict[str, Any] = {parameter.name: parameter.default}
        other = replace(p, **usually)
        if _every(lab, p) == _every(lab, other):
            continue
        for name in names:
            if not changes_condition(lab, p, other, name):
                by_condition[name][parameter.name] = value
    return {name: values for name, values in by_condition.items() if values}


def unused_axes(lab: Lab, points: Sequence[LabParameters], axes: Axes) -> dict[str, list[str]]:
    """Of each condition the varied parameters that it does not use: it is one and the same
    condition at all points that differ in nothing else."""
    by_condition: dict[str, list[str]] = {}
    named = [_named(lab, p) for p in points]
    for name in axes:
        if name in declared(LabParameters):
            continue  # inputs of every run, or of none
        others = [axis for axis in axes if axis != name]
        alike: dict[tuple[object, ...], set[bytes]] = {}
        for p, conditions in zip(points, named, strict=True):
            elsewhere = tuple(getattr(p, axis) for axis in others)
            for condition, text in conditions.items():
                alike.setdefault((condition, *elsewhere), set()).add(text)
        used = {condition for (condition, *_), texts in alike.items() if len(texts) > 1}
        for condition in dict.fromkeys(str(key[0]) for key in alike):
            if condition not in used and len(axes[name]) > 1:
                by_condition.setdefault(condition, []).append(name)
    return by_condition


def changes_condition(lab: Lab, p: LabParameters, other: LabParameters, condition: str) -> bool:
    """Whether a condition is another one with the other parameters, or is impossible with them."""
    ones, others = _every(lab, p), _every(lab, other)
    if condition not in ones:  # only on request
        ones, others = (
            _named(lab, replace(parameters, only=condition)) for parameters in (p, other)
        )
    return others.get(condition) != ones.get(condition)


def _every(lab: Lab, p: LabParameters) -> dict[str, bytes]:
    return _named(lab, replace(p, size="full", only=""))


@lru_cache(maxsize=64)
def _named(lab: Lab, p: LabParameters) -> dict[str, bytes]:
    """The conditions by name, as inputs of runs; none if the parameters do not go together."""
    try:
        return {condition.name: canonical(condition.as_json()) for condition in lab.conditions(p)}
    except LabError:
        return {}


def same_run(axes: Sequence[str]) -> str:
    """A note for a condition that does not use these varied parameters; empty if it uses all."""
    return f"the same run for every {' and '.join(axes)}" if axes else ""


def describe_unused(condition: Condition, values: Unused) -> str:
    """`own link: 100 Mbit/s, 40 ms; not used: rate_mbit 300, delay_ms 10`."""
    phrase = ", ".join(f"{name} {plain(value)}" for name, value in values.items())
    link = f"own link: {asked(condition.link)}; " if OF_A_LINK & values.keys() else ""
    return f"{link}not used: {phrase}"
