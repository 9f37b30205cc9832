"""The code that a dask worker executes: one run in its own folder, returned as a packed file.

A worker performs runs only if it would compute the same keys for them as the client. `Station`, a
plugin of the worker, determines this before the first run: programs, interpreter, libraries and
root of the guest must have the planned digests. If the worker lacks the kernel or the code of a
run, it fetches them once, by digest, verifies them, and keeps them in its user's cache. A worker
with a difference offers no resource, so the scheduler never sends it a run.

Dask executes whatever its scheduler or a worker receives: anyone who can connect can run any code
there. Use TLS, or a network that only trusted users can reach.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from distributed import Status, Worker, WorkerPlugin, get_worker

from labs.batches.parcels import keep_kernel, kernel_here
from labs.drive.condition import from_json
from labs.drive.kernel.guest_root import GuestRoot, guest_root
from labs.drive.kernel.store import Kernel
from labs.drive.parameters.declare import LabParameters
from labs.drive.record.seal import canonical, digest, key
from labs.errors import BRANCHES, LabError, Missing, RunFailed
from labs.launch import audit, inventory
from labs.launch import code_digest as code
from labs.launch.launch import check_limits, check_system
from labs.launch.make import Opened, make_once
from labs.launch.plan import Planned
from labs.read.display.format import few
from labs.read.lab import Lab
from labs.read.runs.archive import pack
from labs.read.runs.compare import changes

OWN = ("tools", "libraries", "guest")
"""The inputs of a run that a worker takes from its own machine."""
PARCELS = "labs-parcels"
"""The key of the scheduler's metadata that has kernels and code by digest."""
REAL_TIME = "labs-real-time"
"""A resource of which each worker has one, because real-time runs would disturb one another."""
SHOWN = 3
_ended: set[str] = set()
"""The batches that their client has ended."""
APPEARS_S = 20.0


@dataclass(frozen=True)
class Task:
    """One run, as it is sent: its inputs in canonical JSON and their key, the module of the lab's
    experiment (part of the code for a user's own lab), the names of its programs, the kernel's HZ.
    """

    key: str
    lab: str
    experiment: str
    own_lab: bool
    programs: tuple[str, ...]
    hz: int | None
    inputs: str

    @cached_property
    def asked(self) -> Mapping[str, Any]:
        """The inputs as a value."""
        inputs: dict[str, Any] = json.loads(self.inputs)
        return inputs

    @cached_property
    def need(self) -> str:
        """A digest that is equal for tasks with the same requirements on a worker."""
        names = ("testbed", "kernel", "memory_mib", "code", *OWN)
        inputs = {name: self.asked.get(name) for name in names}
        about = (self.experiment, self.own_lab, self.programs, self.hz)
        return digest(canonical({"inputs": inputs, "about": about}))


def task_of(planned: Planned) -> Task:
    """What a worker must know about a planned run."""
    return Task(
        key=planned.key,
        lab=planned.lab.name,
        experiment=planned.lab.experiment,
        own_lab=planned.lab.source is not None,
        programs=tuple(planned.programs),
        hz=planned.kernel.hz if planned.kernel else None,
        inputs=canonical(planned.inputs).decode(),
    )


@dataclass(frozen=True)
class Equipment:
    """A worker's equipment for the tasks of one need, and its differences from their inputs."""

    programs: Mapping[str, Path]
    root: GuestRoot | None
    kernel: Kernel | None
    code: code.Code
    inputs: Mapping[str, Any]
    differs: tuple[str, ...]


class Station(WorkerPlugin):
    """Equips a worker for the tasks of a batch, and offers the resource `name` if it can.

    `tasks` has one task per need. With `any_inputs` the programs, libraries and guest of the
    worker may differ. `real_time` limits the worker to one run at a time.
    """

    def __init__(
        self, name: str, tasks: tuple[Task, ...], *, any_inputs: bool, real_time: bool
    ) -> None:
        self.name = name
        self.tasks = tasks
        self.any_inputs = any_inputs
        self.real_time = real_time
        self.differs: tuple[str, ...] | None = None
        self.equipped: dict[str, Equipment] = {}

    async def setup(self, worker: Worker) -> None:
        """Compare the worker with the tasks; report differences, or offer the resource."""
        try:
            await asyncio.to_thread(_prepare, self.tasks)
            for task in self.tasks:
                wanted = await asyncio.to_thread(_lacking, task)
                parcels = {parcel: await _fetch(worker, parcel) for parcel in wanted}
                self.equipped[task.need] = await asyncio.to_thread(_equip, task, parcels)
            every = [what for equipment in self.equipped.values() for what in equipment.differs]
            reasons = [] if self.any_inputs else every
        except LabError as error:
            reasons = [str(error)]
        except Exception as error:  # a worker that cannot be judged is left out
            reasons = [f"{type(error).__name__}: {error}"]
        self.differs = tuple(dict.fromkeys(reasons))
        if self.differs:
            worker.log_event(self.name, {"worker": worker.address, "differs": list(self.differs)})
            return
        real_time = {REAL_TIME: 1} if self.real_time else {}
        await worker.set_resources(**real_time, **{self.name: worker.state.nthreads})
        if worker.status == Status.running:
            # The scheduler assigns tasks that wait for such a worker only when a worker starts to
            # run, not when a worker gets a resource.
            worker.status = Status.paused
            worker.status = Status.running

    async def teardown(self, worker: Worker) -> None:
        """Withdraw the resource; runs in progress continue."""
        if not self.differs:
            await worker.set_resources(**{self.name: 0})

    def perform(self, task: Task, where: Path, say: Callable[[str], None]) -> bytes:
        """Perform the run of a task in a temporary folder below `where`; return it packed."""
        planned, equipment = self._planned(task)

        def ended() -> bool:
            return self.name in _ended

        def say_unless_ended(line: str) -> None:
            if ended():
                raise KeyboardInterrupt
            say(line)

        with tempfile.TemporaryDirectory(prefix="labs-", dir=where) as folder:
            make_once(
                planned,
                equipment.code,
                Opened(Path(folder)),
                False,
                ended,
                say_unless_ended,
                None if planned.kernel else audit.here(),
            )
            packed = Path(folder, "run.tar.gz")
            pack(Path(folder, planned.name), packed, with_host=True, gzip_level=1)
            return packed.read_bytes()

    def _planned(self, task: Task) -> tuple[Planned, Equipment]:
        """The run with this worker's own inputs, and the equipment for it."""
        if task.need not in self.equipped:
            raise RunFailed("this worker is not prepared for the run. Run again")
        equipment = self.equipped[task.need]
        inputs = {**task.asked, **equipment.inputs}
        lab = Lab(
            name=task.lab,
            title="",
            Parameters=LabParameters,
            all_conditions=lambda p: (),
            experiment=task.experiment,
            part=lambda name: None,
            source=Path(f"{code.OWN_LAB}.py") if task.own_lab else None,
        )
        planned = Planned(
            lab,
            from_json(inputs["condition"]),
            inputs,
            key(inputs),
            equipment.programs,
            equipment.kernel,
            equipment.root,
            None,
        )
        return planned, equipment


def perform(name: str, task: Task) -> bytes:
    """Perform a run on this worker; the client submits this function.

    Raises every error of a run as a LabError without its cause and traceback: the client may not
    have their classes, and a traceback may be too deep to be sent.
    """
    worker = get_worker()
    station = worker.plugins.get(name)
    if not isinstance(station, Station):
        raise RunFailed("the batch has ended")

    def say(line: str) -> None:
        worker.log_event(name, {"run": task.key, "line": line})

    try:
        return station.perform(task, Path(worker.local_directory), say)
    except LabError as error:
        branch, reason = BRANCHES.get(type(error).__name__, RunFailed), str(error)
    except KeyboardInterrupt:  # which would end the worker
        branch, reason = RunFailed, "the run was cancelled"
    except Exception as error:
        branch, reason = RunFailed, f"{type(error).__name__}: {error}. Run again"
    raise branch(reason)


def need_of(task: Task) -> str:
    """The need of a task; performed on the scheduler, which must be able to read tasks."""
    return task.need


def end(name: str) -> None:
    """End the runs that this worker still performs for a batch, each at its next line of output."""
    _ended.add(name)


async def report(name: str, dask_worker: Worker) -> tuple[str, ...]:
    """The differences of a worker, in words; empty if it can perform the runs."""
    for _ in range(round(APPEARS_S / 0.05)):
        station = dask_worker.plugins.get(name)
        if isinstance(station, Station) and station.differs is not None:
            return station.differs
        await asyncio.sleep(0.05)
    return ("it was not prepared in time",)


def _prepare(tasks: tuple[Task, ...]) -> None:
    """Missing if no run of these tasks can be performed here."""
    check_system()
    sizes = [task.asked["memory_mib"] for task in tasks if task.asked["kernel"]]
    if sizes:
        check_limits(max(sizes))


def _lacking(task: Task) -> list[str]:
    """The digests of the kernel and of the code that must be fetched for a task."""
    digests = []
    kernel = task.asked["kernel"]
    if kernel and kernel_here(kernel["digest"]) is None:
        digests.append(str(kernel["digest"]))
    if task.own_lab or code.digest(_code_here(task)) != task.asked["code"]:
        digests.append(str(task.asked["code"]))
    return digests


def _code_here(task: Task) -> code.Code:
    """The code for a task in this worker's package."""
    return code.code_of(task.asked["testbed"], task.experiment)


async def _fetch(worker: Worker, wanted: str) -> Mapping[str, Any]:
    """A kernel or code from the scheduler."""
    parcel = await worker.scheduler.get_metadata(keys=[PARCELS, wanted], default=None)
    if parcel is None:
        raise Missing(f"the scheduler does not have {wanted[:12]}. Run again")
    return dict(parcel)


def _equip(task: Task, parcels: Mapping[str, Mapping[str, Any]]) -> Equipment:
    """Collect what a task needs from this machine and from the parcels; Missing or Damaged if
    something cannot be used here."""
    asked = task.asked
    kernel = asked["kernel"]
    built = None
    if kernel:
        built = kernel_here(kernel["digest"]) or keep_kernel(
            kernel["digest"], parcels[kernel["digest"]]
        )
        if (built.sha256, built.version, built.hz) != (
            kernel["digest"],
            kernel["version"],
            task.hz,
        ):
            raise Missing(f"its kernel {kernel['digest'][:12]} has a different record")
    driving = parcels[asked["code"]] if asked["code"] in parcels else _code_here(task)
    if code.digest(driving) != asked["code"]:
        raise Missing("the code of the run was changed in transit")
    for name, content in code.outside(asked["testbed"]).items():
        if driving.get(name) != content:
            raise Missing(f"it has a different version of the lab ({name} differs)")
    interpreter = inventory.python()
    programs = inventory.programs(task.programs)
    root = guest_root(programs, interpreter) if kernel else None
    inputs: Mapping[str, Any] = (
        root.as_inputs() if root else inventory.digests(programs, interpreter)
    )
    return Equipment(programs, root, built, driving, inputs, tuple(_differing(asked, inputs)))


def _differing(asked: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[str]:
    """The tools and libraries of this machine that differ from the inputs, in one line."""
    before = {name: asked[name] for name in OWN if name in asked}
    names = [change.name.partition(".")[2] or "guest" for change in changes(before, here)]
    if names:
        verb = "differs" if len(names) == 1 else "differ"
        yield f"its {few(names, SHOWN)} {verb}"
