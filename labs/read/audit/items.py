"""The items of an audit: a value or the reason why it is unknown, and what is known about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

GROUPS = (
    "CPU and power",
    "Virtualisation and clock",
    "Memory and NUMA",
    "Network card",
    "Netfilter",
    "Queues and congestion control",
    "Sysctls",
)
Value = str | int | float


@dataclass(frozen=True, kw_only=True)
class Item:
    """One item. `value` is None if it is unknown, for the reason in `unknown`. `deviates` is None
    where there is nothing to compare with; `wanted` is what a measurement needs or what the kernel
    starts with, and `wanted_by` says how that is known.

    `matters` says for what: latency, throughput, repeatability. `says` is what the article or the
    kernel's documentation (`source`) says, in the lab's words. `change` is the command that changes
    it, which is never run. `varies` marks what differs from one moment to the next.
    """

    machine: str = ""
    name: str
    device: str = ""
    group: str
    title: str
    value: Value | None = None
    unit: str = ""
    unknown: str = ""
    deviates: bool | None = None
    wanted: str = ""
    wanted_by: str = ""
    matters: tuple[str, ...] = ()
    says: str = ""
    source: str = ""
    change: str = ""
    needs_root: bool = False
    varies: bool = False

    @property
    def key(self) -> str:
        """The name with the device: what two machines are compared by."""
        return f"{self.name} {self.device}".rstrip()

    @property
    def shown(self) -> str:
        """The value with its unit, or `unknown`."""
        return "unknown" if self.value is None else f"{self.value} {self.unit}".rstrip()

    @property
    def rank(self) -> int:
        """The place in its group: what deviates first, what is unknown last."""
        return 2 if self.value is None else 0 if self.deviates else 1

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"matters": list(self.matters)}


def in_order(items: Iterable[Item]) -> list[Item]:
    """By machine, in the order given, and by group; in a group by rank."""
    listed = list(items)
    machines = list(dict.fromkeys(item.machine for item in listed))
    return sorted(
        listed, key=lambda item: (machines.index(item.machine), GROUPS.index(item.group), item.rank)
    )
