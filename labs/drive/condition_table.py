"""The conditions of a lab as a table: a row per condition, with what it changes.

    rows(
        BUFFERS,
        row("automatic", small=True),
        each("rcvbuf-{}k", (16, 64, 256), small=(16,), rcvbuf_kib=same),
        link=LINK,
    )

`select` chooses rows by the parameters that every lab has (`only`, `size`, `testbed`), and
`Row.condition` makes a condition of each that was chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from labs.drive.parameters.declare import LabParameters
from labs.guest.condition import Condition, Group, Setting, Sysctls, as_settings
from labs.guest.testbed.link import Link

S = TypeVar("S")
V = TypeVar("V")
Changes = Mapping[str, Any]
"""Values by the name of a setting, which may be that of a row, such as `link`."""


class Row(NamedTuple):
    """The name of a condition, and what it changes of the settings of its lab.

    `small` is its place in size small: 0 is none; those with 1 (True) come first, and those of one
    place in the order of the table. `machines` is the same for size small on two machines; a table
    without any has the same conditions there. With `by_name` only `only` selects the row.
    """

    name: str
    changes: Changes
    link: Link | None
    sysctls: Sysctls
    small: int
    machines: int
    by_name: bool
    group: str = ""

    def change(self, base: S) -> S:
        """A dataclass with the values that the row changes."""
        return replace(base, **self.changes) if self.changes else base  # type: ignore[type-var]

    def condition(self, base: Any, link: Link) -> Condition:
        """The condition, of a lab whose settings are `base`, on its own link or this one."""
        settings = _as_settings(self.change(base))
        return Condition(self.name, self.link or link, self.sysctls, settings, self.group)


@lru_cache(maxsize=4096)
def _as_settings(settings: Any) -> Mapping[str, Setting]:
    """As `as_settings`, once for the many conditions of many links that share their settings."""
    return as_settings(settings)


def row(
    name: str,
    *,
    small: int = 0,
    machines: int = 0,
    by_name: bool = False,
    link: Link | None = None,
    sysctls: Sysctls | None = None,
    **changes: Any,
) -> Row:
    """A row of a table."""
    return Row(name, changes, link, sysctls or {}, small, machines, by_name)


def same(value: V) -> V:
    """The value of a series itself, for `each`."""
    return value


def each(
    pattern: str,
    values: Iterable[V],
    named: Callable[[V], object] = same,
    *,
    small: int | Collection[V] = 0,
    machines: int | Collection[V] = 0,
    **changes: Any,
) -> Iterator[Row]:
    """A row per value of a series. `pattern` becomes its name, with `named(value)` for `{}`; what
    is a function among the changes is called with the value. `small` and `machines` are places, or
    the values that have the first one."""
    for value in values:
        yield row(
            pattern.format(named(value)),
            small=_place(small, value),
            machines=_place(machines, value),
            **{name: of(value) if callable(of) else of for name, of in changes.items()},
        )


def _place(given: int | Collection[V], value: V) -> int:
    return given if isinstance(given, int) else int(value in given)


def rows(
    group: Group,
    *listed: Row | Iterable[Row],
    link: Link | None = None,
    sysctls: Sysctls | None = None,
    **common: Any,
) -> Iterator[Row]:
    """The rows of a group, with the link, the sysctls and the changes that all of them have unless
    they say otherwise."""
    for item in listed:
        for entry in (item,) if isinstance(item, Row) else item:
            yield entry._replace(
                group=group.name,
                link=entry.link or link,
                sysctls=entry.sysctls or sysctls or {},
                changes={**common, **entry.changes},
            )


def select(p: LabParameters, table: Iterable[Row]) -> tuple[Row, ...]:
    """The rows of `only`, or those of the size; BadInput if `only` names none.

    Rows after the last of `only` are not computed: a batch asks for a few of very many links.
    """
    wanted = {name.strip() for name in p.only.split(",")} - {""}
    missing, seen = set(wanted), list[Row]()
    for entry in table:
        seen.append(entry)
        if entry.name in missing:
            missing.remove(entry.name)
            if not missing:
                break
    if p.only:
        chosen = wanted
        if missing or not wanted:
            chosen = set(p.chosen([entry.name for entry in seen]))
        return tuple(entry for entry in seen if entry.name in chosen)
    if p.size == "full":
        return tuple(entry for entry in seen if not entry.by_name)
    places = [entry.small for entry in seen]
    if p.where.machines and any(entry.machines for entry in seen):
        places = [entry.machines for entry in seen]
    placed = [(place, index) for index, place in enumerate(places) if place]
    return tuple(seen[index] for _, index in sorted(placed))
