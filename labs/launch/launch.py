"""Perform the missing runs of one or many sets of parameters concurrently, with progress."""

from __future__ import annotations

import dataclasses
import os
import queue
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from labs.drive.parameters.declare import LabParameters
from labs.drive.record import study_file as studies
from labs.drive.record.lock import abandoned
from labs.drive.record.run_folder import clear_stale
from labs.drive.testbed.diagnosis import process_limits
from labs.drive.testbeds import Kind
from labs.errors import LabError, Missing, RunFailed
from labs.guest.units import MIB
from labs.launch import slots
from labs.launch.make import MAKING, make_once
from labs.launch.plan import Planned, Planner, plan
from labs.launch.wanted import (
    ENDS,
    Cancelled,
    Engine,
    Event,
    Exists,
    Failed,
    Job,
    Lost,
    Notice,
    Opened,
    Outcome,
    Say,
    Wanted,
)
from labs.read.lab import Lab
from labs.read.runs.run import Run

if TYPE_CHECKING:
    from labs.launch.audit import Collected

Told = tuple[Job, Event | BaseException]
"""What happened to a run; an exception ends all of them."""

# A capture of 1 GiB with offloads off is 740,000 packets of at most 144 bytes.
FREE_MIB = 256
# A run has up to 30 files, one of which is written twice.
FREE_FILES = 40
CHECK_S = 1.0


@dataclass(frozen=True)
class Made:
    """A complete study: its file, and its runs in the plan's order."""

    file: studies.StudyFile
    opened: Opened
    names: tuple[str, ...]

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """The runs, opened on first access, because performing them needs only Python."""
        return tuple(self.opened[name] for name in self.names)


def run(lab: Lab, p: LabParameters, wanted: Wanted | None = None) -> Made:
    """Perform the missing runs of the study that the parameters describe, and return the study.

    Concurrent runs take slots that all processes of a user share; two processes never perform the
    same run. In real time there is one run at a time, and conditions are repeated
    (`labs.launch.repeat`). Complete runs are reused. A failure, like ^C, ends running runs and
    cancels the others; complete runs are kept, so the same call resumes from there.
    """
    check_platform(p.where)
    wanted = wanted or Wanted()
    opened = Opened(Path(p.runs))
    planned = plan(lab, p)
    prepare(opened.folder)
    if p.where.virtual_time:
        perform(planned, opened, wanted)
    else:
        # Repetitions are compared while the study runs, which needs numpy; virtual time does not.
        from labs.launch.repeat import repeat  # noqa: PLC0415

        planned = repeat(lab, planned, p, opened, lambda runs: perform(runs, opened, wanted))
    return _study(lab, p, opened, planned)


def run_points(
    lab: Lab,
    points: Sequence[LabParameters],
    planned: Sequence[tuple[Planned, ...] | LabError],
    wanted: Wanted,
) -> list[Made | LabError]:
    """The studies of many sets of parameters in virtual time, with one folder of runs.

    `planned` are their runs (`plan_points`). All distinct ones are performed concurrently, each of
    them once. A point that could not be planned, or has a failed run, has this error in place of a
    study, and does not affect others.
    """
    opened = Opened(Path(points[0].runs))
    prepare(opened.folder)
    failed = perform(distinct_runs(planned), opened, replace(wanted, keep_going=True))
    studies: list[Made | LabError] = []
    # In reverse order: the study of the first point is then the newest one of its folder.
    for p, runs in zip(reversed(points), reversed(planned), strict=True):
        if isinstance(runs, LabError):
            studies.append(runs)
        else:
            error = next((failed[run.name] for run in runs if run.name in failed), None)
            studies.append(error or _study(lab, p, opened, runs))
    return studies[::-1]


def plan_points(
    lab: Lab, points: Sequence[LabParameters], names: Sequence[str] = ()
) -> list[tuple[Planned, ...] | LabError]:
    """The runs of each point, or the error that prevents planning; all are on one testbed. `names`
    name the points in progress messages."""
    planner: Planner | None = None
    planned: list[tuple[Planned, ...] | LabError] = []
    for p, name in zip(points, names or [""] * len(points), strict=True):
        try:
            planner = planner or Planner(lab, p.where)
            planned.append(tuple(replace(run, point=name) for run in planner.plan(p)))
        except LabError as error:
            planned.append(error)
    return planned


def distinct_runs(planned: Iterable[tuple[Planned, ...] | LabError]) -> list[Planned]:
    """The runs of all points, each once, in the order of their first points."""
    of_points = (runs for runs in planned if not isinstance(runs, LabError))
    return list({run.name: run for runs in of_points for run in runs}.values())


def prepare(runs: Path) -> None:
    """Remove what killed processes left in a folder of runs; Missing if its disk is full."""
    clear_stale(runs)
    for _ in abandoned(runs.glob(f"{MAKING}{os.getuid()}-*")):
        pass  # removes the locks of killed processes
    check_free_space(runs)


def perform(planned: Sequence[Planned], opened: Opened, wanted: Wanted) -> dict[str, LabError]:
    """Perform the planned runs that are not complete; return the errors of failed ones by name.

    A failure is raised and cancels the other runs, unless the call wants to keep going; Lost always
    is. This thread tells the events of all runs.
    """
    missing = []
    for run in planned:
        if not wanted.fresh and opened.complete(run.name):
            wanted.tell(run.title, Exists())
        else:
            missing.append(run)
    if not missing:
        return {}
    audited = _audited(missing[0])
    jobs = [Job(run, opened, wanted, audited) for run in missing]
    return _perform_all(jobs, wanted.engine or _threads(missing, wanted.jobs), wanted)


@dataclass(frozen=True)
class Threads:
    """Performs runs on this machine; each takes one of the user's slots."""

    places: int

    def check(self) -> None:
        """Do nothing, because every run on this machine ends."""

    def perform(self, job: Job, say: Say, cancelled: Cancelled) -> Outcome:
        def say_unless_cancelled(notice: Notice) -> None:
            if cancelled():
                raise KeyboardInterrupt
            say(notice)

        return make_once(job, say_unless_cancelled, cancelled)


def _threads(missing: Sequence[Planned], jobs: int | None) -> Threads:
    """This machine; Missing if it cannot perform these runs."""
    check_system()
    if not missing[0].kernel:
        return Threads(1)  # because concurrent runs would disturb one another in real time
    check_limits(max(run.inputs["memory_mib"] for run in missing))
    return Threads(slots.side_by_side(jobs, len(missing)))


def _perform_all(jobs: Sequence[Job], engine: Engine, wanted: Wanted) -> dict[str, LabError]:
    """Perform all runs, and tell what happens to them; the failures of those that failed."""
    events: queue.SimpleQueue[Told] = queue.SimpleQueue()
    cancelled = threading.Event()
    failed: dict[str, LabError] = {}

    def perform_job(job: Job) -> None:
        events.put((job, _ended(engine, job, lambda it: events.put((job, it)), cancelled.is_set)))

    with ThreadPoolExecutor(engine.places) as threads:
        try:
            for job in jobs:
                threads.submit(perform_job, job)
            for job, event in _until_ended(events, len(jobs), engine.check):
                wanted.tell(job.planned.title, event)
                if isinstance(event, Failed):
                    if not wanted.keep_going:
                        raise event.error
                    failed[job.planned.name] = event.error.with_traceback(None)
        except BaseException:
            cancelled.set()
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    return failed


def _ended(engine: Engine, job: Job, say: Say, cancelled: Cancelled) -> Event | BaseException:
    """Perform a run; how it ended. A refused fork or a full disk concerns one run, too."""
    try:
        return engine.perform(job, say, cancelled)
    except Lost as error:
        return error
    except LabError as error:
        return Failed(error)
    except OSError as error:
        title = f"{job.planned.lab} {job.planned.title}"
        return Failed(RunFailed(f"{title}: {error}. Run again"))
    except BaseException as error:
        return error


def _until_ended(
    events: queue.SimpleQueue[Told], runs: int, check: Callable[[], None]
) -> Iterator[tuple[Job, Event]]:
    """The events until so many runs have ended; `check` is called every CHECK_S in between. What
    ends all runs is raised."""
    next_s = 0.0
    while runs:
        if time.monotonic() >= next_s:
            check()
            next_s = time.monotonic() + CHECK_S
        with suppress(queue.Empty):
            job, event = events.get(timeout=CHECK_S)
            if isinstance(event, BaseException):
                raise event
            runs -= isinstance(event, ENDS)
            yield job, event


def _study(lab: Lab, p: LabParameters, opened: Opened, planned: Sequence[Planned]) -> Made:
    file = studies.write_study(
        opened.folder,
        lab.name,
        dataclasses.asdict(p),
        [studies.Planned(run.condition.name, run.key) for run in planned],
    )
    return Made(file, opened, tuple(run.name for run in planned))


def _audited(planned: Planned) -> Collected | None:
    """The settings of the machines of real-time runs; once per round, before its first run."""
    if planned.kernel:
        return None
    from labs.launch import audit  # noqa: PLC0415  virtual time needs none

    return audit.vagrant(planned.machines.ssh_config) if planned.machines else audit.here()


def check_free_space(runs: Path) -> None:
    """Missing if the disk of `runs` cannot hold the capture of a large download."""
    folder = runs.absolute()
    while not folder.exists():
        folder = folder.parent
    free_mib = shutil.disk_usage(folder).free // MIB
    if free_mib < FREE_MIB:
        raise Missing(
            f"{folder} has {free_mib} MiB free, and a run may need {FREE_MIB} MiB. "
            "Free some space, or name another folder with --into"
        )
    about = os.statvfs(folder)
    if about.f_files and about.f_favail < FREE_FILES:  # some file systems do not count them
        raise Missing(
            f"the file system of {folder} has room for {about.f_favail} more files (df -i) and a "
            f"run may need {FREE_FILES}. Remove some, or name another folder with --into"
        )


def check_platform(where: Kind) -> None:
    """Missing if no run can be performed on this operating system. Another Unix can drive the
    virtual machines."""
    if sys.platform.startswith("linux") or (where.machines and sys.platform != "win32"):
        return
    raise Missing(
        f"runs on the testbed {where.name} need Linux, and this is {sys.platform}. Read the "
        'recorded runs instead: --testbed recorded, or TESTBED = "recorded" in a notebook'
    )


def check_system() -> None:
    """Missing if this machine withholds from a process what every run needs."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        raise Missing(
            f"this machine refuses pidfd_open(2) ({error.strerror}), by which runs wait for their "
            "programs. Use Linux 5.3 or newer, and a container whose seccomp profile allows it"
        ) from None
    if not Path("/proc/meminfo").exists():
        raise Missing(
            "/proc shows processes only (subset=pid), and runs need all of it. As root: "
            "mount -o remount,subset= /proc, or mount -t proc proc /proc"
        )


def check_limits(memory_mib: int) -> None:
    """Missing if a limit of this process is too low for a guest with this memory."""
    check = process_limits(memory_mib)
    if not check.ok:
        raise Missing(f"{check.finding}. Raise it: {check.next_step}")
