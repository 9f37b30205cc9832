"""A condition: one row of an experiment, resolved so far that nothing is left to decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from labs.drive.testbed.link import Link

Setting = str | int | float | bool | None
Sysctls = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Condition:
    """A name, the link, the sysctls a host ({"server": {name: value}}), and the lab's settings."""

    name: str
    link: Link
    sysctls: Sysctls = field(default_factory=dict)
    settings: Mapping[str, Setting] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The condition as it stands in a run's inputs."""
        return {
            "name": self.name,
            "link": asdict(self.link),
            "sysctls": {host: dict(values) for host, values in self.sysctls.items()},
            "settings": dict(self.settings),
        }


def seed_of(settings: Mapping[str, Setting], seed: int) -> int:
    """The seed of a run with these settings: each draw of a condition starts from another one."""
    return (seed + int(str(settings.get("draw", 0)))) % 2**31


def from_json(data: Mapping[str, Any]) -> Condition:
    """The condition that `as_json` wrote."""
    return Condition(data["name"], Link(**data["link"]), data["sysctls"], data["settings"])
