"""Perform the missing runs of a plan concurrently, with progress, until done or cancelled."""

from __future__ import annotations

import dataclasses
import os
import platform
import queue
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from labs.drive import guest
from labs.drive.guest import FAILURE, INPUTS
from labs.drive.kernel.boot import PATH, boot
from labs.drive.kernel.guest_root import kept_root
from labs.drive.kernel.kept_copy import check, content_digest
from labs.drive.parameters.declare import LabParameters
from labs.drive.programs.init import INSIDE_CODE, PYTHON
from labs.drive.record import study_file as studies
from labs.drive.record.disk import OwnedPath, abandoned, written_to
from labs.drive.record.run_folder import Staging, clear_stale
from labs.drive.record.stored_files import read_json
from labs.drive.testbed.diagnosis import process_limits
from labs.drive.units import MIB
from labs.errors import BRANCHES, Damaged, LabError, Missing, RunFailed
from labs.launch import audit, inventory, locks, slots
from labs.launch import code_digest as code
from labs.launch.plan import Planned, code_of, plan
from labs.read.lab import Lab
from labs.read.runs import raw_files
from labs.read.runs.archive import AUDIT
from labs.read.runs.run import Run, open_run

Progress = Callable[[str, str], None]
"""Called with a run's title and a line about it; the last line is 'made' or 'there already'. A
line that says what the run waits for begins with `labs.launch.locks.WAITING`."""

PREFIX = "labs: "
# The lock of a run in progress, next to its folder, so that each run is performed once.
MAKING = ".making-"
# A capture of 1 GiB with offloads off is 740,000 packets of at most 144 bytes.
FREE_MIB = 256
# A run has up to 30 files, one of which is written twice.
FREE_FILES = 40
PROBE_BYTES = 1 << 16


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


class Opened:
    """The complete runs of a folder; each is verified and opened once."""

    def __init__(self, runs: Path) -> None:
        self.folder = runs
        self._runs: dict[str, Run] = {}

    def __getitem__(self, name: str) -> Run:
        """A run; BadInput or Damaged if it is not complete."""
        if name not in self._runs:
            self._runs[name] = open_run(self.folder / name)
        return self._runs[name]

    def complete(self, name: str) -> bool:
        """Whether a run exists, is complete, and matches its seal."""
        try:
            return (self.folder / name).is_dir() and bool(self[name])
        except LabError:
            return False


def make(
    planned: Planned,
    driving: code.Code,
    runs: Path,
    cpu: int | None,
    say: Callable[[str], None],
    audited: audit.Collected | None = None,
) -> Path:
    """Perform one run and return its folder; a failed run leaves nothing behind. `audited` is what
    its machines are set to; in virtual time that has no influence."""
    interpreter = inventory.python()
    _check_programs(planned, interpreter)
    copied = code.copied(driving, interpreter)
    experiment = code.OWN_LAB if planned.lab.source else planned.lab.experiment
    started = time.time()
    with Staging(runs, planned.name) as staging:
        staging.write_json(INPUTS, _for_the_guest(planned, interpreter))

        def on_line(line: str) -> None:
            if line.startswith(PREFIX):
                say(line.removeprefix(PREFIX))

        try:
            if planned.kernel and planned.root:
                root = kept_root(planned.root, interpreter)
                boot(
                    planned.kernel.path,
                    root=root.folder,
                    staging=staging.folder,
                    code=copied.folder,
                    argv=guest.argv(Path(PYTHON), INSIDE_CODE, "virtual", experiment),
                    memory_mib=planned.inputs["memory_mib"],
                    seed=planned.inputs["seed"],
                    cpu=cpu,
                    on_line=on_line,
                )
                check(root)
            else:
                _here(
                    guest.argv(
                        interpreter, str(copied.folder), planned.inputs["testbed"], experiment
                    ),
                    staging.folder,
                    on_line,
                )
        except RunFailed as error:
            check_room(staging.folder)
            _raise_failure(planned, staging.folder)
            said = without_colours(str(error))
            raise RunFailed(f"{planned.lab.name} {planned.condition.name}: {said}") from error
        staging.check()
        _raise_failure(planned, staging.folder)
        check(copied)
        _check_output(planned, staging.folder)
        return staging.seal(_about_this_machine(started, audited))


def without_colours(text: str) -> str:
    """A text without the escape sequences by which Python 3.13 colours tracebacks on a console."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def _for_the_guest(planned: Planned, interpreter: Path) -> dict[str, Any]:
    """What the run reads: its inputs, and what it must know of kernel, programs and machines."""
    return {
        "inputs": planned.inputs,
        "key": planned.key,
        "hz": planned.kernel.hz if planned.kernel else None,
        "versions": planned.machines.versions
        if planned.machines
        else inventory.versions(planned.programs, interpreter),
        "ssh_config": str(planned.machines.ssh_config) if planned.machines else None,
    }


def _check_programs(planned: Planned, interpreter: Path) -> None:
    """RunFailed if a program of this machine, or the kernel, has changed since the plan; a guest's
    root is checked when it is copied."""
    used = {}
    if planned.kernel:
        used["kernel"] = content_digest(planned.kernel.path) == planned.kernel.sha256
    elif not planned.machines:
        found = inventory.digests(planned.programs, interpreter)
        used |= {what: found[what] == planned.inputs[what] for what in found}
    changed = [what for what, equal in used.items() if not equal]
    if changed:
        raise RunFailed(f"{changed[0]} changed after the runs were planned. Run again")


def _here(argv: tuple[str, ...], staging: Path, on_line: Callable[[str], None]) -> None:
    """Perform a run with this machine's own kernel, in a separate process."""
    process = subprocess.Popen(
        ("setpriv", "--pdeathsig", "TERM", *argv),
        cwd=staging,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
        env={"PATH": PATH, "LC_ALL": "C", "TZ": "UTC", "HOME": os.environ.get("HOME", "/tmp")},
    )
    assert process.stdout is not None
    said = []
    try:
        for line in process.stdout:
            said.append(line.strip())
            on_line(line.rstrip())
    except BaseException:
        process.terminate()
        raise
    finally:
        exit_code = process.wait()
    if exit_code:
        raise RunFailed(f"the run ended with exit code {exit_code}: {' | '.join(said[-3:])}")


def _raise_failure(planned: Planned, folder: Path) -> None:
    """Raise the error that the run itself recorded, if it recorded one."""
    try:
        failure = read_json(folder / FAILURE)
        kind, message = str(failure["kind"]), str(failure["message"])
    except (Damaged, KeyError):
        return  # there is none, or it was cut short with the run that wrote it
    raise BRANCHES.get(kind, RunFailed)(f"{planned.lab.name} {planned.condition.name}: {message}")


def _check_output(planned: Planned, folder: Path) -> None:
    """RunFailed if the raw output cannot be read: such a run is never sealed."""
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    try:
        raw_files.check(folder, names)
    except Damaged as error:
        raise RunFailed(
            f"{planned.lab.name} {planned.condition.name}: the output of the run cannot be read: "
            f"{error}. The run was discarded. Run it again, or with other parameters"
        ) from error


def _processor() -> str | None:
    """The model of this machine's processor."""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
        found = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        return next(found, None)


def _about_this_machine(started: float, audited: audit.Collected | None) -> dict[str, Any]:
    """What may differ between two equal runs."""
    return {
        **({} if audited is None else {AUDIT: audited}),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "real_s": round(time.time() - started, 3),
        "uname": list(platform.uname()),
        "cpu": _processor(),
        "cpus": os.cpu_count(),
        "load": list(os.getloadavg()),
    }


def run(
    lab: Lab,
    p: LabParameters,
    *,
    fresh: bool = False,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Made:
    """Perform the missing runs of the study that the parameters describe, and return the study.

    Up to `jobs` runs (default: one per CPU) are concurrent, in slots that all processes of a user
    share; two processes never perform the same run. In real time there is one run at a time, and
    conditions are repeated (`labs.launch.repeat`). Complete runs are reused unless `fresh`. A
    failure, like ^C, ends running runs and cancels the others; complete runs are kept, so the same
    call resumes from there.
    """
    tell = progress or (lambda title, line: None)
    runs = Path(p.runs)
    opened = Opened(runs)

    def make_missing(wanted: Sequence[Planned]) -> None:
        missing = [one for one in wanted if fresh or not opened.complete(one.name)]
        for one in wanted:
            if one not in missing:
                tell(one.title, "there already")
        if missing:
            check_system()
        if missing and p.testbed == "virtual":
            check_limits(missing[0].inputs["memory_mib"])
        if missing:
            side_by_side = _jobs(p.testbed, jobs, len(missing))
            _make_all(missing, opened, fresh, side_by_side, tell)

    planned = plan(lab, p)
    clear_stale(runs)
    for _ in abandoned(runs.glob(f"{MAKING}{os.getuid()}-*")):
        pass  # removes the locks of killed processes
    check_free_space(runs)
    if p.testbed == "virtual":
        make_missing(planned)
    else:
        # Repetitions are compared while the study runs, which needs numpy; virtual time does not.
        from labs.launch.repeat import repeat  # noqa: PLC0415

        planned = repeat(planned, p, make_missing, lambda one: opened[one.name])
    file = studies.write_study(
        runs,
        lab.name,
        dataclasses.asdict(p),
        [studies.Planned(one.condition.name, one.key) for one in planned],
    )
    return Made(file, opened, tuple(one.name for one in planned))


def _jobs(testbed: str, asked: int | None, missing: int) -> int:
    """The number of concurrent runs: one in real time, because runs would disturb one another."""
    if testbed != "virtual":
        return 1
    return slots.side_by_side(asked, missing)


def _make_all(
    missing: Sequence[Planned], opened: Opened, fresh: bool, jobs: int, tell: Progress
) -> None:
    """Perform the runs in `jobs` threads; this thread reports the lines of all of them."""
    audited = _audited(missing[0])
    cancelled = threading.Event()
    lines: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()

    def one(planned: Planned) -> None:
        def say(line: str) -> None:
            if cancelled.is_set():
                raise KeyboardInterrupt
            lines.put((planned.title, line))

        outcome = _make_once(planned, driving, opened, fresh, cancelled.is_set, say, audited)
        lines.put((planned.title, outcome))

    driving = code_of(missing[0].lab, missing[0].inputs["testbed"])
    if any(code.digest(driving) != planned.inputs["code"] for planned in missing):
        raise RunFailed(
            f"{missing[0].lab.name} was changed after its runs were planned. Run it again"
        )
    pool = ThreadPoolExecutor(jobs)
    futures: set[Future[None]] = {pool.submit(one, planned) for planned in missing}
    try:
        while futures:
            done, futures = wait(futures, timeout=0.1, return_when=FIRST_COMPLETED)
            while not lines.empty():
                tell(*lines.get())
            for future in done:
                future.result()
    except BaseException:
        cancelled.set()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        while not lines.empty():
            tell(*lines.get())


def _audited(planned: Planned) -> audit.Collected | None:
    """What the machines of runs in real time are set to; once per round, before its first run."""
    if planned.machines:
        return audit.vagrant(planned.machines.ssh_config)
    return None if planned.kernel else audit.here()


def _make_once(
    planned: Planned,
    driving: code.Code,
    opened: Opened,
    fresh: bool,
    cancelled: Callable[[], bool],
    say: Callable[[str], None],
    audited: audit.Collected | None,
) -> str:
    """Perform a run unless another process performs it first; return the outcome."""
    # Per user, because a user cannot lock the file of another user.
    named = opened.folder / f"{MAKING}{os.getuid()}-{planned.name}"
    elsewhere = "write to another folder with --into DIR"
    strangers: set[Path] = set()

    def free() -> OwnedPath | None:
        lock = locks.of_this_user(named)
        if lock != named and lock not in strangers:
            strangers.add(lock)
            say(f"{locks.WAITING} not for {named.name}, which user {locks.user_of(named)} holds")
        return locks.take(lock, planned.title, elsewhere)

    def held_by() -> str:
        by = locks.holder(locks.of_this_user(named))
        return f"for the same run: {by.in_words() if by else 'it has just ended'}"

    with locks.wait_for(free, held_by, cancelled, say):
        if not fresh and opened.complete(planned.name):
            return "there already"
        with slots.slot(planned.title, cancelled, say) as cpu:
            if cancelled():
                raise KeyboardInterrupt
            make(planned, driving, opened.folder, cpu, say, audited)
    return "made"


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


def check_room(folder: Path) -> None:
    """Missing if `folder` takes no more files or bytes."""
    probe = folder / f".room-{os.urandom(6).hex()}"
    with written_to(folder.parent):
        with probe.open("xb") as file:
            file.write(bytes(PROBE_BYTES))
        probe.unlink()


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
        raise Missing(f"{check.found}. Raise it: {check.next_step}")
