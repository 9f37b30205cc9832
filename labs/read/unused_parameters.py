"""Parameters that a condition does not use: with their default it would be the same condition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any

from labs.drive.condition import Condition
from labs.drive.parameters.axes import Axes
from labs.drive.parameters.declare import LabParameters, Scalar, declared, plain
from labs.drive.record.seal import canonical
from labs.drive.testbed.link import Link
from labs.errors import LabError
from labs.read.display.provenance import asked
from labs.read.lab import Lab

OF_A_LINK = frozenset(one.name for one in fields(Link))

Unused = Mapping[str, Scalar]
"""The parameters that a condition does not use, with the values that were requested."""


def unused(lab: Lab, p: LabParameters, conditions: Iterable[str]) -> dict[str, Unused]:
    """Of each of these conditions the lab's own parameters that it does not use, if they do not
    have their usual values. Parameters that none of the lab's conditions uses are left out: they
    are not for runs."""
    names = tuple(conditions)
    usual = p.testbed_defaults(p.testbed, p.size)
    found: dict[str, dict[str, Scalar]] = {name: {} for name in names}
    for one in declared(type(p)).values():
        value = getattr(p, one.name)
        if one.name in declared(LabParameters) or value in (one.default, usual.get(one.name)):
            continue
        usually: dict[str, Any] = {one.name: one.default}
        other = replace(p, **usually)
        if _every(lab, p) == _every(lab, other):
            continue
        for name in names:
            if not changes_condition(lab, p, other, name):
                found[name][one.name] = value
    return {name: values for name, values in found.items() if values}


def unused_axes(lab: Lab, points: Sequence[LabParameters], axes: Axes) -> dict[str, list[str]]:
    """Of each condition the varied parameters that it does not use: it is one and the same
    condition at all points that differ in nothing else."""
    found: dict[str, list[str]] = {}
    named = [_named(lab, p) for p in points]
    for name in axes:
        if name in declared(LabParameters):
            continue  # inputs of every run, or of none
        others = [one for one in axes if one != name]
        alike: dict[tuple[object, ...], set[bytes]] = {}
        for p, conditions in zip(points, named, strict=True):
            elsewhere = tuple(getattr(p, one) for one in others)
            for condition, text in conditions.items():
                alike.setdefault((condition, *elsewhere), set()).add(text)
        used = {condition for (condition, *_), texts in alike.items() if len(texts) > 1}
        for condition in dict.fromkeys(str(key[0]) for key in alike):
            if condition not in used and len(axes[name]) > 1:
                found.setdefault(condition, []).append(name)
    return found


def changes_condition(lab: Lab, p: LabParameters, other: LabParameters, condition: str) -> bool:
    """Whether a condition is another one with the other parameters, or is impossible with them."""
    ones, others = _every(lab, p), _every(lab, other)
    if condition not in ones:  # only on request
        ones, others = (_named(lab, replace(one, only=condition)) for one in (p, other))
    return others.get(condition) != ones.get(condition)


def _every(lab: Lab, p: LabParameters) -> dict[str, bytes]:
    return _named(lab, replace(p, size="full", only=""))


@lru_cache(maxsize=64)
def _named(lab: Lab, p: LabParameters) -> dict[str, bytes]:
    """The conditions by name, as inputs of runs; none if the parameters do not go together."""
    try:
        return {one.name: canonical(one.as_json()) for one in lab.conditions(p)}
    except LabError:
        return {}


def same_run(axes: Sequence[str]) -> str:
    """A note for a condition that does not use these varied parameters; empty if it uses all."""
    return f"the same run for every {' and '.join(axes)}" if axes else ""


def in_words(condition: Condition, values: Unused) -> str:
    """`own link: 100 Mbit/s, 40 ms; not used: rate_mbit 300, delay_ms 10`."""
    told = ", ".join(f"{name} {plain(value)}" for name, value in values.items())
    own = f"own link: {asked(condition.link)}; " if OF_A_LINK & values.keys() else ""
    return f"{own}not used: {told}"
