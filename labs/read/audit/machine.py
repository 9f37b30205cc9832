"""All items of one machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from labs.read.audit import clock, cpu, memory, netfilter, nic, sysctls
from labs.read.audit.items import Item, in_order, items_of, items_of_devices
from labs.read.audit.raw import Raw

RULES = cpu.RULES | clock.RULES | memory.RULES | netfilter.RULES | nic.RULES
DEVICE_RULES = nic.DEVICE_RULES


def audit(raw: Raw) -> list[Item]:
    """The items of a machine, by group; what deviates is first in each."""
    return in_order([*items_besides_sysctls(raw), *sysctls.items(raw)])


def audit_each(machines: Mapping[str, Raw]) -> list[Item]:
    """The items of several machines, each with the name of its machine."""
    every = ((name, item) for name, raw in machines.items() for item in audit(raw))
    return in_order(replace(item, machine=name) for name, item in every)


def items_besides_sysctls(raw: Raw) -> list[Item]:
    return [*items_of(RULES, raw), *items_of_devices(DEVICE_RULES, raw)]
