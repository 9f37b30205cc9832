"""Make the missing runs of a plan: side by side, with progress, until done or cancelled."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import queue
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
from labs.drive.kernel.boot import INSIDE_CODE, PATH, boot
from labs.drive.parameters.declare import LabParameters
from labs.drive.record import study_file as studies
from labs.drive.record.disk import written_to
from labs.drive.record.run_folder import Staging, clear_stale
from labs.drive.testbed.diagnosis import process_limits
from labs.errors import BRANCHES, LabError, Missing, RunFailed
from labs.launch import code_digest as code
from labs.launch import inventory, slots
from labs.launch.plan import Planned, code_of, plan
from labs.read.lab import Lab
from labs.read.runs.run import Run, open_run

Progress = Callable[[str, str], None]
"""Called with a run's title and a line about it; 'made', 'there already', 'failed' at last."""

PREFIX = "labs: "
MIB = 1 << 20
# A capture of 1 GiB with offloads off is 740,000 packets of at most 144 bytes.
FREE_MIB = 256
# A run has up to 30 files, one of which is written twice.
FREE_FILES = 40
PROBE_BYTES = 1 << 16


@dataclass(frozen=True)
class Made:
    """A study all of whose runs exist: its file, and its runs in the plan's order."""

    file: studies.StudyFile
    opened: Opened
    names: tuple[str, ...]

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """The runs, opened when they are first asked for: making them needs only Python."""
        return tuple(self.opened[name] for name in self.names)


class Opened:
    """The runs of a folder as they become complete: each is verified and opened once."""

    def __init__(self, runs: Path) -> None:
        self.folder = runs
        self._runs: dict[str, Run] = {}

    def __getitem__(self, name: str) -> Run:
        """A run; BadInput or Damaged if it is not complete."""
        if name not in self._runs:
            self._runs[name] = open_run(self.folder / name)
        return self._runs[name]

    def complete(self, name: str) -> bool:
        """Whether a run exists, whole and as it was sealed."""
        try:
            return (self.folder / name).is_dir() and bool(self[name])
        except LabError:
            return False


def make(planned: Planned, runs: Path, cpu: int | None, say: Callable[[str], None]) -> Path:
    """Make one run and return its folder; whatever goes wrong leaves nothing of it behind."""
    interpreter = inventory.python()
    driving = code_of(planned.lab, planned.inputs["testbed"])
    if code.digest(driving) != planned.inputs["code"]:
        raise RunFailed(f"{planned.lab.name} was changed after its runs were planned; run it again")
    copied = code.copy(driving, interpreter)
    experiment = code.OWN_LAB if planned.lab.source else planned.lab.experiment
    started = time.time()
    with Staging(runs, planned.name) as staging:
        staging.write_json(
            INPUTS,
            {
                "inputs": planned.inputs,
                "key": planned.key,
                "hz": planned.kernel.hz if planned.kernel else None,
                "versions": planned.machines.versions
                if planned.machines
                else inventory.versions(planned.inputs["tools"], interpreter),
                "ssh_config": str(planned.machines.ssh_config) if planned.machines else None,
            },
        )

        def on_line(line: str) -> None:
            if line.startswith(PREFIX):
                say(line.removeprefix(PREFIX))

        try:
            if planned.kernel:
                boot(
                    planned.kernel.path,
                    staging=staging.folder,
                    code=copied,
                    argv=guest.argv(interpreter, INSIDE_CODE, "virtual", experiment),
                    memory_mib=planned.inputs["memory_mib"],
                    seed=planned.inputs["seed"],
                    cpu=cpu,
                    on_line=on_line,
                )
            else:
                _here(
                    guest.argv(interpreter, str(copied), planned.inputs["testbed"], experiment),
                    staging.folder,
                    on_line,
                )
        except RunFailed:
            check_room(staging.folder)
            _raise_failure(planned, staging.folder)
            raise
        _raise_failure(planned, staging.folder)
        return staging.seal(_about_this_machine(started))


def _here(argv: tuple[str, ...], staging: Path, on_line: Callable[[str], None]) -> None:
    """Make a run with this machine's own kernel, in a process of its own."""
    process = subprocess.Popen(
        ("setpriv", "--pdeathsig", "TERM", *argv),
        cwd=staging,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
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
    """Raise what the run itself left as the reason of its failure, if it left one."""
    path = folder / FAILURE
    if path.exists():
        failure = json.loads(path.read_text())
        branch = BRANCHES.get(failure["kind"], RunFailed)
        raise branch(f"{planned.lab.name} {planned.condition.name}: {failure['message']}")


def _about_this_machine(started: float) -> dict[str, Any]:
    """What may differ between two equal runs."""
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "real_s": round(time.time() - started, 3),
        "uname": list(platform.uname()),
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
    """Make the missing runs of the study that the parameters ask for, and return the study.

    Up to `jobs` runs (default: one per CPU) go side by side, in places that all users of the
    machine share. On real time there is one at a time, and conditions are repeated
    (`labs.launch.repeat`). A complete run is kept, unless `fresh`. A failure, like ^C, ends what
    runs and what has not begun; complete runs stay, so the same call resumes from there.
    """
    tell = progress or (lambda title, line: None)
    runs = Path(p.runs)
    opened = Opened(runs)

    def make_missing(wanted: Sequence[Planned]) -> None:
        missing = [one for one in wanted if fresh or not opened.complete(one.name)]
        for one in wanted:
            if one not in missing:
                tell(one.title, "there already")
        if missing and p.testbed == "virtual":
            check_limits(p.memory_mib)
        if missing:
            _make_all(missing, runs, _jobs(p.testbed, jobs, len(missing)), tell)

    planned = plan(lab, p)
    clear_stale(runs)
    check_free_space(runs)
    if p.testbed == "virtual":
        make_missing(planned)
    else:
        # Repetitions are compared as they are made, which needs numpy; virtual time does not.
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
    """How many runs go side by side: on real time one, because runs would disturb one another."""
    if testbed != "virtual":
        return 1
    return slots.side_by_side(asked, missing)


def _make_all(missing: Sequence[Planned], runs: Path, jobs: int, tell: Progress) -> None:
    """Make the runs in as many threads; lines of all of them are told from this one."""
    cancelled = threading.Event()
    lines: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()

    def one(planned: Planned) -> None:
        name = planned.title

        def say(line: str) -> None:
            if cancelled.is_set():
                raise KeyboardInterrupt
            lines.put((name, line))

        with slots.slot(cancelled.is_set) as cpu:
            if not cancelled.is_set():
                make(planned, runs, cpu, say)
                lines.put((name, "made"))

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


def check_free_space(runs: Path) -> None:
    """Missing if the disk of `runs` cannot hold the capture of a large download."""
    folder = runs.absolute()
    while not folder.exists():
        folder = folder.parent
    free_mib = shutil.disk_usage(folder).free // MIB
    if free_mib < FREE_MIB:
        raise Missing(
            f"{folder} has {free_mib} MiB free and a run may need {FREE_MIB}. "
            "Free some, or name another folder with --into"
        )
    about = os.statvfs(folder)
    if about.f_files and about.f_favail < FREE_FILES:  # some file systems do not count them
        raise Missing(
            f"the file system of {folder} has room for {about.f_favail} more files (df -i) and a "
            f"run may need {FREE_FILES}. Remove some, or name another folder with --into"
        )


def check_room(folder: Path) -> None:
    """Missing if `folder` takes no more files or bytes."""
    probe = folder / ".room"
    with written_to(folder.parent):
        probe.write_bytes(bytes(PROBE_BYTES))
        probe.unlink()


def check_limits(memory_mib: int) -> None:
    """Missing if a limit of this process is too low for a guest with this memory."""
    check = process_limits(memory_mib)
    if not check.ok:
        raise Missing(f"{check.found}. Raise it: {check.next_step}")
