"""From parameters to the runs that they ask for: inputs, keys, names; nothing is started."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labs.catalogue import Lab
from labs.errors import Missing
from labs.experiments.condition import Condition, seed_of
from labs.kernel.store import Kernel, find
from labs.launch import code, tools
from labs.parameters.base import LabParameters
from labs.record.canonical import key
from labs.record.folder import run_name
from labs.record.schema import VERSION


@dataclass(frozen=True)
class Planned:
    """One run to be made: its condition, its inputs and their key, what boots it."""

    lab: Lab
    condition: Condition
    inputs: dict[str, Any]
    key: str
    kernel: Kernel | None

    @property
    def title(self) -> str:
        """What progress calls it: its condition, and which repetition it is."""
        repetition = self.inputs.get("repetition")
        return self.condition.name + ("" if repetition is None else f" {repetition}")

    @property
    def name(self) -> str:
        return run_name(self.lab.name, self.condition.name, self.key)


def titles(lab: Lab, p: LabParameters) -> list[str]:
    """What progress calls the runs that are made in any case."""
    names = [condition.name for condition in lab.conditions(p)]
    if p.testbed == "virtual":
        return names
    return [f"{name} {number + 1}" for name in names for number in range(p.repetitions_min)]


def plan(lab: Lab, p: LabParameters, repetition: int | None = None) -> tuple[Planned, ...]:
    """The runs that the parameters ask for; Missing if a tool or the kernel is not here.

    On real time each stands for its `repetition`, by default the first; on virtual time a run
    repeats to the byte, so there are none.
    """
    if p.testbed not in ("virtual", "namespaces"):
        raise Missing(f"the {p.testbed} testbed cannot make runs in this version; "
                      "--testbed virtual can, and needs no rights")
    experiment = lab.experiment_module()
    kernel = find(p.kernel) if p.testbed == "virtual" else None
    interpreter = tools.python()
    own = Path(lab.source) if lab.source else None
    driving = code.digest_of(own)
    runs = []
    for condition in lab.conditions(p):
        names = [*tools.ALWAYS, *getattr(experiment, "tools", lambda _: ())(condition)]
        if condition.settings.get("capture"):
            names.append("tcpdump")
        if condition.link.at == "router":
            names.append("ethtool")
        inputs = {
            "schema": VERSION, "lab": lab.name, "condition": condition.as_json(),
            "testbed": p.testbed,
            "kernel": kernel and {"version": kernel.version, "digest": kernel.sha256},
            "memory_mib": p.memory_mib,
            "seed": seed_of(condition.settings, p.seed),
            "tools": tools.digests(names, interpreter), "code": driving,
        }
        if p.testbed != "virtual":
            inputs["repetition"] = repetition or 1
        runs.append(Planned(lab, condition, inputs, key(inputs), kernel))
    return tuple(runs)
