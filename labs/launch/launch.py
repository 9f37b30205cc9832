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
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from labs.drive.parameters.declare import LabParameters
from labs.drive.record import study_file as studies
from labs.drive.record.lock import abandoned
from labs.drive.record.run_folder import clear_stale
from labs.drive.testbed.diagnosis import process_limits
from labs.errors import LabError, Missing, RunFailed
from labs.guest.units import MIB
from labs.launch import audit, slots
from labs.launch import code_digest as code
from labs.launch.engine import Engine, Job, Lost, Threads, failed_run
from labs.launch.make import MAKING, Opened
from labs.launch.plan import Planned, Planner, code_of, plan
from labs.launch.progress import EXISTS, FAILED
from labs.read.lab import Lab
from labs.read.runs.run import Run

Progress = Callable[[str, str], None]
"""Called with a run's title and a line about it (`labs.launch.progress`)."""
Event = tuple[Job, str | Future[str]]
"""A line about a run, or its end."""

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


def run(
    lab: Lab,
    p: LabParameters,
    *,
    fresh: bool = False,
    jobs: int | None = None,
    progress: Progress | None = None,
    engine: Engine | None = None,
) -> Made:
    """Perform the missing runs of the study that the parameters describe, and return the study.

    Up to `jobs` runs (default: one per CPU) are concurrent, in slots that all processes of a user
    share; two processes never perform the same run. In real time there is one run at a time, and
    conditions are repeated (`labs.launch.repeat`). Complete runs are reused unless `fresh`. A
    failure, like ^C, ends running runs and cancels the others; complete runs are kept, so the same
    call resumes from there.
    """
    check_platform(p.testbed)
    tell = progress or _tell_nobody
    opened = Opened(Path(p.runs))

    def make_missing(wanted: Sequence[Planned]) -> None:
        perform(wanted, opened, fresh=fresh, jobs=jobs, tell=tell, engine=engine)

    planned = plan(lab, p)
    prepare(opened.folder)
    if p.testbed == "virtual":
        make_missing(planned)
    else:
        # Repetitions are compared while the study runs, which needs numpy; virtual time does not.
        from labs.launch.repeat import repeat  # noqa: PLC0415

        planned = repeat(planned, p, make_missing, lambda repetition: opened[repetition.name])
    return _study(lab, p, opened, planned)


def run_points(
    lab: Lab,
    points: Sequence[LabParameters],
    *,
    fresh: bool = False,
    jobs: int | None = None,
    progress: Progress | None = None,
    names: Sequence[str] = (),
) -> tuple[Made | LabError, ...]:
    """As `run`, for many sets of parameters with one folder of runs; one study or error per set.

    In virtual time all distinct runs are performed concurrently, each of them once, even if several
    points share it. A point that cannot be planned, or has a failed run, does not affect others.
    `names` name the points in progress messages. On other testbeds the points are sequential.
    """
    tell = progress or _tell_nobody
    if any(p.testbed != "virtual" for p in points):
        return tuple(
            _or_error(lambda p=p: run(lab, p, fresh=fresh, jobs=jobs, progress=tell))  # type: ignore[misc]
            for p in points
        )
    opened = Opened(Path(points[0].runs))
    planned = plan_points(lab, points, names)
    prepare(opened.folder)
    distinct = distinct_runs(planned)
    failed = perform(distinct, opened, fresh=fresh, jobs=jobs, tell=tell, keep_going=True)

    def study(p: LabParameters, of_point: tuple[Planned, ...] | LabError) -> Made | LabError:
        if isinstance(of_point, LabError):
            return of_point
        error = next((failed[run.name] for run in of_point if run.name in failed), None)
        return error or _study(lab, p, opened, of_point)

    # In reverse order: the study of the first point is then the newest one of its folder.
    made = [
        study(p, of_point) for p, of_point in zip(reversed(points), reversed(planned), strict=True)
    ]
    return tuple(reversed(made))


def plan_points(
    lab: Lab, points: Sequence[LabParameters], names: Sequence[str] = ()
) -> list[tuple[Planned, ...] | LabError]:
    """The runs of each point, or the error that prevents planning."""
    planners: dict[str, Planner] = {}
    planned: list[tuple[Planned, ...] | LabError] = []
    for number, p in enumerate(points):
        try:
            if p.testbed not in planners:
                planners[p.testbed] = Planner(lab, p.testbed)
            runs = planners[p.testbed].plan(p)
        except LabError as error:
            planned.append(error)
        else:
            point = names[number] if names else ""
            planned.append(tuple(replace(run, point=point) for run in runs) if point else runs)
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


def perform(
    wanted: Sequence[Planned],
    opened: Opened,
    *,
    fresh: bool = False,
    jobs: int | None = None,
    tell: Progress,
    engine: Engine | None = None,
    keep_going: bool = False,
) -> dict[str, LabError]:
    """Perform the planned runs that are not complete; return the errors of failed ones by name.

    `engine` performs them, or else `jobs` threads. A failure is raised and cancels the other runs,
    unless `keep_going`; Lost always is. This thread reports the lines of all runs.
    """
    missing = []
    for run in wanted:
        if not fresh and opened.complete(run.name):
            tell(run.title, EXISTS)
        else:
            missing.append(run)
    if not missing:
        return {}
    listed = _jobs_of(missing, opened, fresh)
    if engine is None:
        engine = _threads(missing, jobs)
    return _perform_all(listed, engine, tell, keep_going)


def _threads(missing: Sequence[Planned], jobs: int | None) -> Threads:
    """This machine; Missing if it cannot perform these runs."""
    check_system()
    if not missing[0].kernel:
        return Threads(1)  # because concurrent runs would disturb one another in real time
    check_limits(max(run.inputs["memory_mib"] for run in missing))
    return Threads(slots.side_by_side(jobs, len(missing)))


def _jobs_of(missing: Sequence[Planned], opened: Opened, fresh: bool) -> list[Job]:
    """The runs with the code that they execute; RunFailed if it has changed since planning."""
    first = missing[0]
    driving = code_of(first.lab, first.inputs["testbed"])
    digest = code.digest(driving)
    if any(digest != planned.inputs["code"] for planned in missing):
        raise RunFailed(f"{first.lab.name} was changed after its runs were planned. Run it again")
    audited = _audited(first)
    return [Job(planned, driving, opened, fresh, audited) for planned in missing]


def _perform_all(
    jobs: Sequence[Job], engine: Engine, tell: Progress, keep_going: bool
) -> dict[str, LabError]:
    """Perform all runs, and report their lines and failures as they come."""
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    cancelled = threading.Event()
    failed: dict[str, LabError] = {}

    def perform_job(job: Job) -> str:
        with failed_run(job.planned):
            return engine.perform(job, lambda line: events.put((job, line)), cancelled.is_set)

    def end(job: Job, done: Future[str]) -> None:
        events.put((job, done))

    with ThreadPoolExecutor(engine.places) as threads:
        try:
            for job in jobs:
                threads.submit(perform_job, job).add_done_callback(partial(end, job))
            for job, event in _until_ended(events, len(jobs), engine.check):
                failed |= _report(job, event, tell, keep_going)
        except BaseException:
            cancelled.set()
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    return failed


def _until_ended(
    events: queue.SimpleQueue[Event], runs: int, check: Callable[[], None]
) -> Iterator[Event]:
    """The events until so many runs have ended; `check` is called every CHECK_S in between."""
    next_s = 0.0
    while runs:
        if time.monotonic() >= next_s:
            check()
            next_s = time.monotonic() + CHECK_S
        with suppress(queue.Empty):
            event = events.get(timeout=CHECK_S)
            yield event
            runs -= not isinstance(event[1], str)


def _report(
    job: Job, event: str | Future[str], tell: Progress, keep_going: bool
) -> dict[str, LabError]:
    """Report a line or the outcome of a run. Its failure, by name, if others continue."""
    if isinstance(event, str):
        tell(job.planned.title, event)
        return {}
    try:
        outcome = event.result()
    except Lost:
        raise
    except LabError as error:
        tell(job.planned.title, f"{FAILED}: {error}")
        if not keep_going:
            raise
        return {job.planned.name: error.with_traceback(None)}
    tell(job.planned.title, outcome)
    return {}


def _study(lab: Lab, p: LabParameters, opened: Opened, planned: Sequence[Planned]) -> Made:
    file = studies.write_study(
        opened.folder,
        lab.name,
        dataclasses.asdict(p),
        [studies.Planned(run.condition.name, run.key) for run in planned],
    )
    return Made(file, opened, tuple(run.name for run in planned))


def _or_error(make: Callable[[], Made]) -> Made | LabError:
    try:
        return make()
    except LabError as error:
        return error


def _tell_nobody(title: str, line: str) -> None:
    """Discard progress."""


def _audited(planned: Planned) -> audit.Collected | None:
    """The settings of the machines of real-time runs; once per round, before its first run."""
    if planned.machines:
        return audit.vagrant(planned.machines.ssh_config)
    return None if planned.kernel else audit.here()


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


def check_platform(testbed: str) -> None:
    """Missing if no run can be performed on this operating system. Another Unix can drive the
    virtual machines."""
    if sys.platform.startswith("linux") or (testbed == "vagrant" and sys.platform != "win32"):
        return
    raise Missing(
        f"runs on the testbed {testbed} need Linux, and this is {sys.platform}. Read the recorded "
        'runs instead: --testbed recorded, or TESTBED = "recorded" in a notebook'
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
