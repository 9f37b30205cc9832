"""A condition: one row of an experiment, with every value that a run needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar, get_args, get_type_hints

from labs.errors import Damaged
from labs.guest.testbed.link import Link

Setting = str | int | float | bool | None
Sysctls = Mapping[str, Mapping[str, str]]
S = TypeVar("S")
PLAIN = frozenset((str, int, float, bool, type(None)))


@dataclass(frozen=True)
class Group:
    """Conditions that belong together, such as the points of a sweep: `name` is for programs,
    `title` for people. A lab declares its groups as GROUPS, in the order in which they are shown.
    """

    name: str
    title: str


@dataclass(frozen=True)
class Condition:
    """A name, the link, the sysctls per host ({"server": {name: value}}), and the lab's settings.

    `group` is the name of one of the lab's groups, or empty in a lab without any. It has no effect
    on a run and is not among a run's inputs. `plan` is JSON of any depth that `measure` reads, such
    as a path and its flows; an empty one is not among the inputs either.
    """

    name: str
    link: Link
    sysctls: Sysctls = field(default_factory=dict)
    settings: Mapping[str, Setting] = field(default_factory=dict)
    group: str = ""
    plan: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The condition as part of a run's inputs."""
        return {
            "name": self.name,
            "link": asdict(self.link),
            "sysctls": {host: dict(values) for host, values in self.sysctls.items()},
            "settings": dict(self.settings),
            **({"plan": dict(self.plan)} if self.plan else {}),
        }


def from_json(data: Mapping[str, Any]) -> Condition:
    """The condition that `as_json` wrote, now or in an earlier version."""
    link, plan = Link(**data["link"]), data.get("plan", {})
    return Condition(data["name"], link, data["sysctls"], data["settings"], plan=plan)


def as_settings(settings: Any) -> dict[str, Setting]:
    """A lab's dataclass `Settings` as the settings of a condition; fields that are None are
    omitted."""
    return {name: value for name, value in asdict(settings).items() if value is not None}


def read_settings(cls: type[S], settings: Mapping[str, Any]) -> S:
    """A lab's dataclass `Settings` from the settings of a condition, as written by `as_settings`.

    A field without a setting has its default; a setting that is not a field is ignored. Raises
    Damaged for a setting of another type than its field.
    """
    kinds = get_type_hints(cls)
    given: dict[str, Any] = {
        one.name: settings[one.name]
        for one in fields(cls)  # type: ignore[arg-type]
        if one.name in settings
    }
    for name, value in given.items():
        if kinds[name] is float and isinstance(value, int):  # JSON has no 90.0
            given[name] = float(value)
        elif not _fits(value, kinds[name]):
            raise Damaged(
                f"the setting {name} is {str(value)[:40]!r}. Allowed: {kinds[name]}. Take the "
                "condition as it was recorded"
            )
    return cls(**given)


def _fits(value: object, kind: Any) -> bool:
    """Whether a value has one of the types of a field; True for a field of any other types."""
    kinds = get_args(kind) or (kind,)
    return type(value) in kinds or not PLAIN.issuperset(kinds)


def seed_of(settings: Mapping[str, Setting], seed: int) -> int:
    """The seed of a run with these settings; each `draw` of a condition has its own."""
    draw = settings.get("draw")
    return (seed + (draw if isinstance(draw, int) else 0)) % 2**31
