"""All items of one machine, and what differs between two."""

from __future__ import annotations

from dataclasses import dataclass

from labs.drive.record.seal import HOST
from labs.drive.record.stored_files import read_json
from labs.errors import Damaged
from labs.read.audit import clock, cpu, memory, netfilter, nic, queueing, sysctls
from labs.read.audit.items import Item, in_order, items_of, items_of_devices
from labs.read.audit.raw import Raw, open_raw
from labs.read.runs.run import Run

IN_HOST_JSON = "audit"

RULES = cpu.RULES | clock.RULES | memory.RULES | netfilter.RULES | queueing.RULES
DEVICE_RULES = nic.RULES | queueing.DEVICE_RULES


def audit(raw: Raw) -> list[Item]:
    """The items of a machine, by group; what deviates is first in each."""
    return in_order(
        [*items_of(RULES, raw), *items_of_devices(DEVICE_RULES, raw), *sysctls.items(raw)]
    )


def of_run(run: Run) -> dict[str, Raw]:
    """The machines of a run by name, as they were audited before it; empty for a run without."""
    try:
        said = read_json(run.path / HOST).get(IN_HOST_JSON, {})
    except Damaged:  # packed without host.json
        return {}
    if not isinstance(said, dict):
        raise Damaged(f"the audit in {run.path / HOST} is not an object")
    return {name: open_raw(one, f"the audit in {run.path / HOST}") for name, one in said.items()}


@dataclass(frozen=True)
class Difference:
    """An item that two machines are set to differently."""

    title: str
    first: str
    second: str

    def __str__(self) -> str:
        return f"{self.title}: {self.first} -> {self.second}"


def differences(first: Raw, second: Raw) -> list[Difference]:
    """What differs between two machines: every item that both know and that does not vary by the
    moment, and every sysctl, also those that have their default on both."""
    ones, others = _comparable(first), _comparable(second)
    found = [
        Difference(one.title, one.shown, others[key].shown)
        for key, one in ones.items()
        if key in others and one.shown != others[key].shown
    ]
    here, there = first.sysctls(), second.sysctls()
    names = [name for name in dict.fromkeys([*here, *there]) if here.get(name) != there.get(name)]
    return found + [
        Difference(name, here.get(name, "not there"), there.get(name, "not there"))
        for name in names
    ]


def _comparable(raw: Raw) -> dict[tuple[str, str], Item]:
    """The items to compare, except sysctls. The only device of a machine needs no name."""
    only = raw.devices[0] if len(raw.devices) == 1 else ""
    items = [*items_of(RULES, raw), *items_of_devices(DEVICE_RULES, raw)]
    return {
        (one.name, "" if one.device == only else one.device): one
        for one in items
        if one.value is not None and not one.varies
    }
