"""The machines of runs in real time, as they were audited before them, and how two differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from labs.drive.host_load import HERE
from labs.drive.record.seal import HOST
from labs.errors import Damaged
from labs.read.audit.items import Item
from labs.read.audit.machine import items_besides_sysctls
from labs.read.audit.raw import Raw, open_raw, sysctl_name
from labs.read.display.format import counted
from labs.read.runs.archive import audit_in
from labs.read.runs.run import Run

NOT_THERE = "not there"
ORDER = (HERE, "server", "client")


@dataclass(frozen=True)
class Difference:
    """An item that two machines are set to differently."""

    title: str
    first: str
    second: str

    def __str__(self) -> str:
        return f"{self.title}: {self.first} -> {self.second}"


@dataclass(frozen=True)
class MachinePair:
    """A machine of each side, by name, and what differs between them."""

    first: str
    second: str
    differences: tuple[Difference, ...]

    def lines(self) -> Iterator[str]:
        """One line per difference, after a line that says which machines these are."""
        names = self.first if self.first == self.second else f"{self.first} -> {self.second}"
        count = len(self.differences)
        yield f"machines differ in {counted(count, 'item')} ({names})"
        yield from (f"  {difference}" for difference in self.differences)


def of_run(run: Run) -> dict[str, Raw]:
    """The machines of a run by name; empty for a run without an audit. Damaged for an audit that
    cannot be read."""
    audit = audit_in(run.path)
    if audit is None:
        return {}
    if not isinstance(audit, dict):
        raise Damaged(f"the audit in {run.path / HOST} is not an object")
    names = [
        *(name for name in ORDER if name in audit),
        *(name for name in audit if name not in ORDER),
    ]
    return {name: open_raw(audit[name], f"the audit in {run.path / HOST}") for name in names}


def of_side(runs: Iterable[Run]) -> dict[str, Raw]:
    """The machines of the last run that has an audit; empty if none has."""
    return next((machines for run in reversed([*runs]) if (machines := of_run(run))), {})


def compared(first: Iterable[Run], second: Iterable[Run]) -> list[MachinePair]:
    """The machines of two sides: those of the same name, or each with each if no name is common.
    Empty if a side has no audit, such as runs in virtual time."""
    machines, others = of_side(first), of_side(second)
    common = [(name, name) for name in machines if name in others]
    pairs = common or [(name, other) for name in machines for other in others]
    return [
        MachinePair(name, other, tuple(differences(machines[name], others[other])))
        for name, other in pairs
    ]


def as_lines(pairs: Sequence[MachinePair]) -> list[str]:
    """The differences of all pairs, or why there are none to show."""
    if not pairs:
        return ["the machines were not compared: one side or both have no audit in host.json"]
    return [line for pair in pairs for line in pair.lines()]


def differences(first: Raw, second: Raw) -> list[Difference]:
    """What differs between two machines: every item that both know and that does not vary by the
    moment, and every sysctl, also those that have their default on both."""
    items, others = _comparable(first), _comparable(second)
    differing = [
        Difference(item.title, item.shown, others[key].shown)
        for key, item in items.items()
        if key in others and item.shown != others[key].shown
    ]
    here, there = first.sysctls(), second.sysctls()
    unread = {sysctl_name(path) for path in (*first.refused, *second.refused)}
    return differing + [
        Difference(name, here.get(name, NOT_THERE), there.get(name, NOT_THERE))
        for name in dict.fromkeys([*here, *there])
        if here.get(name) != there.get(name) and name not in unread
    ]


def _comparable(raw: Raw) -> Mapping[tuple[str, str], Item]:
    """The items to compare, except sysctls. The only device of a machine needs no name."""
    only = raw.devices[0] if len(raw.devices) == 1 else ""
    return {
        (item.name, "" if item.device == only else item.device): item
        for item in items_besides_sysctls(raw)
        if item.value is not None and not item.varies
    }
