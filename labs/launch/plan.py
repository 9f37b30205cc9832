"""The runs that the parameters describe: their inputs, keys and names. Nothing is started."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from labs.drive.kernel import programs as here
from labs.drive.kernel.kit import Kit
from labs.drive.kernel.kit_maker import ready
from labs.drive.kernel.memory_size import guest_memory_mib
from labs.drive.kernel.store import Kernel, find, kernels
from labs.drive.kernel.versions import series_of
from labs.drive.parameters.declare import LabParameters, declared
from labs.drive.record.run_folder import run_name
from labs.drive.record.seal import key
from labs.drive.record.stored_files import AGAIN, VERSION
from labs.drive.testbed.diagnosis import LINK_TRIALS, part_of_the_link
from labs.drive.testbeds import Kind
from labs.errors import Damaged, Missing
from labs.guest.condition import Condition, from_json, seed_of
from labs.launch import code_digest as code
from labs.launch import inventory
from labs.launch.inventory import Inventory
from labs.read.lab import Lab


@dataclass(frozen=True)
class Planned:
    """One planned run: the name of its lab and the module or the user's own file with its
    experiment, its condition, its inputs and their key, the code that it executes, the programs
    that it starts, and either the kernel and the kit (virtual testbed) or the running machines
    (vagrant)."""

    lab: str
    experiment: str
    source: Path | None
    condition: Condition
    inputs: dict[str, Any]
    key: str
    driving: code.Code = field(repr=False)
    programs: Mapping[str, Path]
    kernel: Kernel | None
    kit: Kit | None
    machines: Inventory | None
    point: str = ""
    """The values in which it differs from other runs of the same condition, in words."""

    @property
    def title(self) -> str:
        """Its name in progress messages: the condition, its point if there are several, and the
        number of the repetition."""
        repetition = self.inputs.get("repetition")
        parts = (self.condition.name, self.point, "" if repetition is None else str(repetition))
        return " ".join(part for part in parts if part)

    def repeated(self, repetition: int) -> Planned:
        """The same run as repetition N, counted from 1; real-time testbeds only."""
        inputs = {**self.inputs, "repetition": repetition}
        return replace(self, inputs=inputs, key=key(inputs))

    @property
    def name(self) -> str:
        return run_name(self.lab, self.condition.name, self.key)


def least_repetitions(p: LabParameters) -> int:
    """How many runs of each condition a study always includes."""
    return 1 if p.where.virtual_time else p.repetitions_min


def plan(lab: Lab, p: LabParameters) -> tuple[Planned, ...]:
    """The runs that the parameters describe; Missing if a tool or the kernel is not installed.

    In real time each is the first repetition of its condition. In virtual time a run repeats to
    the byte, so there are no repetitions.
    """
    return Planner(lab, p.where).plan(p)


class Planner:
    """Plans the runs of a lab on one testbed for one or many sets of parameters.

    What the sets have in common (programs, code, kernels, and the kit) is determined once. Planning
    a further set therefore takes about as long as computing its keys.
    """

    def __init__(self, lab: Lab, where: Kind) -> None:
        self._lab = lab
        self._where = where
        self._driving = code_of(lab, where.name)
        self._digest = code.digest(self._driving)
        self._kernels: dict[str, Kernel] = {}
        self._kit: Kit | None = None
        self._used: dict[tuple[str, ...], tuple[Mapping[str, Path], Mapping[str, Any]]] = {}

    def plan(self, p: LabParameters) -> tuple[Planned, ...]:
        """As the function `plan`, for parameters with this planner's testbed."""
        conditions = self._lab.conditions(p)
        kernel = self._kernel(p.kernel) if self._where.virtual_time else None
        machines = self._machines(conditions)
        memory_mib = guest_memory_mib(p.memory_mib, series_of(kernel.version) if kernel else "")
        seeds = (seed_of(condition.settings, p.seed) for condition in conditions)
        return tuple(
            self._planned(condition, seed, kernel, machines, memory_mib)
            for condition, seed in zip(conditions, seeds, strict=True)
        )

    def again(self, recorded: Mapping[str, Any], name: str) -> Planned:
        """A run with these inputs once more on this planner's testbed, which is its own: condition,
        memory and seed as recorded, with the programs and code of this machine; in virtual time
        with the kernel of the same digest or else of the nearest version. Equal inputs therefore
        have an equal key.

        Missing if no kernel of the series is built, or if the testbed cannot be used here; Damaged,
        for the run `name`, for memory that no lab allows.
        """
        memory_mib, asked = recorded["memory_mib"], from_json(recorded["condition"])
        if not self._where.virtual_time:
            machines = self._machines((asked,))
            return self._planned(asked, recorded["seed"], None, machines, memory_mib)
        kernel = self._nearest(recorded["kernel"])
        allowed = declared(self._lab.Parameters)["memory_mib"]
        if not (allowed.low or 0) <= memory_mib <= (allowed.high or memory_mib):
            raise Damaged(
                f"{name} has memory_mib = {memory_mib}. Allowed: {allowed.low:g} to "
                f"{allowed.high:g}. {AGAIN}"
            )
        planned = self._planned(asked, recorded["seed"], kernel, None, memory_mib)
        inputs = {**planned.inputs, "condition": recorded["condition"]}
        return replace(planned, inputs=inputs, key=key(inputs))

    def _machines(self, conditions: Sequence[Condition]) -> Inventory | None:
        """The running Vagrant machines, on that testbed. Missing if a testbed in real time cannot
        be used here."""
        if self._where.on_this_kernel and any(condition.link.shaped for condition in conditions):
            shaper_of_this_machine()
        return _inspect(self._lab, conditions) if self._where.machines else None

    def _nearest(self, recorded: Mapping[str, str]) -> Kernel:
        """The built kernel of a digest; otherwise the newest of the version, or of its series."""
        version, digest = recorded["version"], recorded["digest"]
        every = kernels()
        same = [kernel for kernel in every if kernel.sha256 == digest] or [
            kernel for kernel in every if version in (kernel.version, kernel.source)
        ]
        spec = same[0].sha256 if same else series_of(version)
        if spec not in self._kernels:
            self._kernels[spec] = find(spec)
        return self._kernels[spec]

    def _planned(
        self,
        condition: Condition,
        seed: int,
        kernel: Kernel | None,
        machines: Inventory | None,
        memory_mib: int,
    ) -> Planned:
        if machines:
            programs: Mapping[str, Path] = {}
            used: Mapping[str, Any] = {"tools": machines.digests}
        else:
            names = (*here.EVERY_RUN, *_tools(self._lab, condition))
            programs, used = self._used_by(tuple(dict.fromkeys(names)))
        inputs = {
            "schema": VERSION,
            "lab": self._lab.name,
            "condition": condition.as_json(),
            "testbed": self._where.name,
            "kernel": kernel and {"version": kernel.version, "digest": kernel.sha256},
            # The memory of machines is fixed, and is part of their digests.
            "memory_mib": None if machines else memory_mib,
            "seed": seed,
            **used,
            "code": self._digest,
        }
        if not self._where.virtual_time:
            inputs["repetition"] = 1
        return Planned(
            self._lab.name,
            self._lab.experiment,
            self._lab.source,
            condition,
            inputs,
            key(inputs),
            self._driving,
            programs,
            kernel,
            self._kit,
            machines,
        )

    def _kernel(self, name: str) -> Kernel:
        if name not in self._kernels:
            self._kernels[name] = find(name)
        return self._kernels[name]

    def _used_by(self, names: tuple[str, ...]) -> tuple[Mapping[str, Path], Mapping[str, Any]]:
        """The paths of programs by name, and the inputs of a run that starts them: the kit, or in
        real time their digests. Missing if one is not in it, or not installed."""
        if names not in self._used:
            if self._where.virtual_time:
                self._kit = self._kit or ready()
                self._used[names] = self._kit.programs(names), self._kit.inputs
            else:
                programs = here.programs(names)
                self._used[names] = programs, here.digests(programs, here.python())
        return self._used[names]


@cache
def shaper_of_this_machine() -> None:
    """As root, raise Missing, with the next step, if this machine's kernel cannot shape a link."""
    for name in LINK_TRIALS if os.geteuid() == 0 else ():
        check = part_of_the_link(name)
        if not check.ok:
            raise Missing(
                f"{check.finding}, so `namespaces` cannot be used. Try: {check.next_step}"
            )


def code_of(lab: Lab, testbed: str) -> code.Code:
    """The code that a run of a lab on a testbed can execute."""
    return code.code_of(testbed, lab.experiment, lab.source)


def _tools(lab: Lab, condition: Condition, on_machines: bool = False) -> tuple[str, ...]:
    """The programs that a condition starts in addition to those of every run."""
    capture = ("tcpdump",) if condition.settings.get("capture") else ()
    router = ("ethtool",) if condition.link.shaped_at == "router" else ()
    tools_of = lab.machine_tools if on_machines and lab.machine_tools else lab.tools
    return (*tools_of(condition), *capture, *router)


def _inspect(lab: Lab, conditions: Sequence[Condition]) -> Inventory:
    """Inspect the running Vagrant machines; BadInput for a link that they do not support."""
    from labs.drive.testbed.vagrant import Vagrant  # noqa: PLC0415  not on every system
    from labs.drive.testbed.vagrant_up import reach  # noqa: PLC0415

    for condition in conditions:
        Vagrant(condition.link, Path())
    names = dict.fromkeys(name for condition in conditions for name in _tools(lab, condition, True))
    return inventory.inspect(reach(), tuple(names))
