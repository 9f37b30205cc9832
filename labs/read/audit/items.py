"""The items of an audit: a value or the reason why it is unknown, and what is known about it."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from labs.read.audit.raw import UNEXPECTED, Raw, Unknown

ABOUT = Path(__file__).with_name("about.toml")
GROUPS = (
    "CPU and power",
    "Virtualisation and clock",
    "Memory and NUMA",
    "Network card",
    "Netfilter",
    "Queues and congestion control",
    "Sysctls",
)
Value = str | int | float | None


@dataclass(frozen=True)
class Finding:
    """A value, and how it compares: `deviates` is None where there is nothing to compare with.
    `wanted` is what a measurement needs, as the item's source says, or what the kernel starts with;
    then `wanted_by` says how that is known."""

    value: str | int | float
    deviates: bool | None = None
    wanted: str = ""
    wanted_by: str = ""


Found = Finding | str | int | float
Rule = Callable[[Raw], Found]
DeviceRule = Callable[[Raw, str], Found]


@dataclass(frozen=True, kw_only=True)
class Item:
    """One item. `value` is None if it is unknown, for the reason in `unknown`.

    `matters` says for what: latency, throughput, repeatability. `says` is what the article or the
    kernel's documentation (`source`) says, in the lab's words. `change` is the command that changes
    it, which is never run. `varies` marks what differs from one moment to the next.
    """

    machine: str = ""
    name: str
    device: str = ""
    group: str
    title: str
    value: Value = None
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


@functools.cache
def about() -> Mapping[str, Mapping[str, Any]]:
    """What is known about each item, by its name: labs/read/audit/about.toml."""
    groups = tomllib.loads(ABOUT.read_text(encoding="utf-8"))
    return {
        f"{area}.{name}": description
        for area, names in groups.items()
        for name, description in names.items()
    }


def items_of(rules: Mapping[str, Rule], raw: Raw) -> Iterator[Item]:
    """The item of each rule."""
    for name, rule in rules.items():
        yield _item(name, "", functools.partial(rule, raw), raw)


def items_of_devices(rules: Mapping[str, DeviceRule], raw: Raw) -> Iterator[Item]:
    """The items of each rule, device by device."""
    for device in raw.devices:
        for name, rule in rules.items():
            yield _item(name, device, functools.partial(rule, raw, device), raw)


def _item(name: str, device: str, find: Callable[[], Found], raw: Raw) -> Item:
    description = about()[name]
    unknown, finding = "", Finding("")
    try:
        given = find()
        finding = given if isinstance(given, Finding) else Finding(given)
    except Unknown as error:
        unknown = str(error)
        if "not permitted" in unknown and not raw.root:
            unknown = f"only root can read it ({unknown})"
    except UNEXPECTED as error:
        unknown = f"what this machine shows has an unknown format ({type(error).__name__})"
    return Item(
        name=name,
        device=device,
        group=description["group"],
        title=description["title"],
        value=None if unknown else finding.value,
        unit=description.get("unit", ""),
        unknown=unknown,
        deviates=None if unknown else finding.deviates,
        wanted=finding.wanted,
        wanted_by=finding.wanted_by or (description["source"] if finding.wanted else ""),
        matters=tuple(description["matters"]),
        says=description["says"],
        source=description["source"],
        change=description["change"].replace("DEVICE", device or "DEVICE"),
        needs_root=description.get("needs_root", False),
        varies=description.get("varies", False),
    )


def wants(value: str | int | float, wanted: str | int) -> Finding:
    """A finding that deviates unless it is what the item's source asks for."""
    return Finding(value, value != wanted, str(wanted))


def in_order(items: Iterable[Item]) -> list[Item]:
    """By machine, in the order given, and by group; in a group by rank."""
    listed = list(items)
    machines = list(dict.fromkeys(item.machine for item in listed))
    return sorted(
        listed, key=lambda item: (machines.index(item.machine), GROUPS.index(item.group), item.rank)
    )
