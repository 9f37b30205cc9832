"""All items of one machine, by the table of items (items.toml)."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

from labs.read.audit import sysctls
from labs.read.audit.items import Item, Value, in_order
from labs.read.audit.raw import UNEXPECTED, Raw, Unknown
from labs.read.audit.rules import DEVICE_RULES, PARSERS, RULES, Judged, read

TABLE = Path(__file__).with_name("items.toml")
DEVICE = "DEVICE"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How an item is read and judged; the head of the table says what the fields are."""

    read: tuple[str, ...] = ()
    parse: str = "text"
    empty: str = ""
    wanted: Value | None = None
    unwanted: str = ""

    def judged(self, value: Value) -> Judged:
        if self.unwanted:
            return Judged(value, bool(re.search(self.unwanted, str(value))))
        return Judged(value, None if self.wanted is None else value != self.wanted)

    def find(self, name: str, raw: Raw, device: str) -> Judged:
        """The value on a machine, and whether it deviates. Unknown if it is."""
        if name in RULES:
            value = RULES[name](raw)
        elif name in DEVICE_RULES:
            value = DEVICE_RULES[name](raw, device)
        else:
            text = " ".join(read(raw, place.replace(DEVICE, device)) for place in self.read)
            value = PARSERS[self.parse](text.strip())
        if isinstance(value, Judged):
            return value
        return self.judged(self.empty if value == "" else value)


@functools.cache
def table() -> Mapping[Item, Reading]:
    """The rows of labs/read/audit/items.toml: what is known about an item, and how it is read."""
    how = {field.name for field in fields(Reading)}
    rows = {}
    for area, names in tomllib.loads(TABLE.read_text(encoding="utf-8")).items():
        for name, row in names.items():
            row |= {"matters": tuple(row["matters"]), "read": tuple(row.get("read", ()))}
            about = {field: row[field] for field in row.keys() - how}
            reading = Reading(**{field: row[field] for field in row.keys() & how})
            rows[Item(name=f"{area}.{name}", **about)] = reading
    return rows


def audit(raw: Raw) -> list[Item]:
    """The items of a machine, by group; what deviates is first in each."""
    return in_order([*items_besides_sysctls(raw), *sysctls.items(raw)])


def audit_each(machines: Mapping[str, Raw]) -> list[Item]:
    """The items of several machines, each with the name of its machine."""
    all_items = ((name, item) for name, raw in machines.items() for item in audit(raw))
    return in_order(replace(item, machine=name) for name, item in all_items)


def items_besides_sysctls(raw: Raw) -> Iterator[Item]:
    for device in ("", *raw.devices):
        for item, reading in table().items():
            of_device = item.name in DEVICE_RULES or any(DEVICE in place for place in reading.read)
            if of_device == bool(device):
                yield _filled_in(item, reading, device, raw)


def _filled_in(item: Item, reading: Reading, device: str, raw: Raw) -> Item:
    item = replace(item, device=device, change=item.change.replace(DEVICE, device or DEVICE))
    try:
        judged = reading.find(item.name, raw, device)
    except Unknown as error:
        hidden = "not permitted" in str(error) and not raw.root
        return replace(item, unknown=f"only root can read it ({error})" if hidden else str(error))
    except UNEXPECTED as error:
        unknown = f"what this machine shows has an unknown format ({type(error).__name__})"
        return replace(item, unknown=unknown)
    if judged.deviates is None:
        return replace(item, value=judged.value)
    compared = replace(item, wanted=str(reading.wanted), wanted_by=item.source)
    return replace(compared, value=judged.value, deviates=judged.deviates)
