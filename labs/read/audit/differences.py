"""The machines of runs in real time, as they were audited before them, and how two differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from labs.drive.record.seal import HOST
from labs.errors import Damaged
from labs.read.audit.items import Item
from labs.read.audit.machine import items_besides_sysctls
from labs.read.audit.raw import Raw, open_raw, sysctl_name
from labs.read.display.format import counted
from labs.read.runs.archive import audit_in
from labs.read.runs.run import Run

NOT_THERE = "not there"


@dataclass(frozen=True)
class Difference:
    """An item that two machines are set to differently."""

    title: str
    first: str
    second: str


@dataclass(frozen=True)
class MachinePair:
    """A machine of each side, by name, and what differs between them."""

    first: str
    second: str
    differences: tuple[Difference, ...]


def of_run(run: Run) -> dict[str, Raw]:
    """The machines of a run by name, a server before its client; empty for a run without an audit.
    Damaged for an audit that cannot be read."""
    audit, what = audit_in(run.path), f"the audit in {run.path / HOST}"
    if audit is None:
        return {}
    if not isinstance(audit, dict):
        raise Damaged(f"{what} is not an object")
    return {name: open_raw(audit[name], what) for name in sorted(audit, reverse=True)}


def of_side(runs: Iterable[Run]) -> dict[str, Raw]:
    """The machines of the last run that has an audit; empty if none has."""
    return next((machines for run in reversed([*runs]) if (machines := of_run(run))), {})


def compared(first: Iterable[Run], second: Iterable[Run]) -> list[MachinePair]:
    """The machines of two sides: those of the same name, or each with each if no name is common.
    Empty if a side has no audit, such as runs in virtual time."""
    machines, others = of_side(first), of_side(second)
    common = [(name, name) for name in machines if name in others]
    return [
        MachinePair(name, other, tuple(differences(machines[name], others[other])))
        for name, other in common or [(name, other) for name in machines for other in others]
    ]


def as_lines(pairs: Sequence[MachinePair]) -> list[str]:
    """The differences of all pairs, or why there are none to show."""
    lines = []
    for pair in pairs:
        names = pair.first if pair.first == pair.second else f"{pair.first} -> {pair.second}"
        lines.append(f"machines differ in {counted(len(pair.differences), 'item')} ({names})")
        lines += [f"  {item.title}: {item.first} -> {item.second}" for item in pair.differences]
    return lines or ["the machines were not compared: one side or both have no audit in host.json"]


def differences(first: Raw, second: Raw) -> list[Difference]:
    """What differs between two machines: every item that both know and that does not vary by the
    moment, and every sysctl, also those that have their default on both."""
    items, others = _comparable(first), _comparable(second)
    here, there = first.sysctls(), second.sysctls()
    unread = {sysctl_name(path) for path in (*first.refused, *second.refused)}
    both = [(items[key], others[key]) for key in items if key in others]
    shown = [(item.title, item.shown, other.shown) for item, other in both]
    texts = [
        (name, here.get(name, NOT_THERE), there.get(name, NOT_THERE))
        for name in here | there
        if name not in unread
    ]
    return [Difference(*text) for text in shown + texts if text[1] != text[2]]


def _comparable(raw: Raw) -> Mapping[tuple[str, str], Item]:
    """The items to compare, except sysctls. The only device of a machine needs no name."""
    only = raw.devices[0] if len(raw.devices) == 1 else ""
    return {
        (item.name, "" if item.device == only else item.device): item
        for item in items_besides_sysctls(raw)
        if item.value is not None and not item.varies
    }
