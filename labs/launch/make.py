"""Perform one run in a slot of its user, once even if several processes request it."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labs.drive.kernel import programs as here
from labs.drive.kernel.boot import EITHER, PATH, PTRACE, boot
from labs.drive.kernel.kept_copy import check, content_digest
from labs.drive.record.disk import written_to
from labs.drive.record.run_folder import Staging
from labs.drive.record.stored_files import read_json
from labs.drive.testbeds import TESTBEDS, VIRTUAL
from labs.errors import BRANCHES, BadInput, Damaged, RunFailed
from labs.guest import entry as guest
from labs.guest.entry import FAILURE, INPUTS
from labs.guest.programs.init import INSIDE_CODE, PYTHON
from labs.launch import code_digest as code
from labs.launch import locks, slots
from labs.launch.plan import Planned
from labs.launch.wanted import (
    AUTO,
    BOOT,
    Cancelled,
    Exists,
    Job,
    Line,
    Outcome,
    Performed,
    Say,
    Waiting,
)
from labs.read.runs import raw_files
from labs.read.runs.archive import AUDIT

if TYPE_CHECKING:
    from labs.launch.audit import Collected

PREFIX = "labs: "
# The lock of a run in progress, next to its folder, so that each run is performed once.
MAKING = ".making-"
PROBE_BYTES = 1 << 16


def make_once(job: Job, say: Say, cancelled: Cancelled) -> Outcome:
    """Perform a run in a slot, unless another process performs it first."""
    planned, opened = job.planned, job.opened

    def wait(what: str) -> None:
        say(Waiting(what))

    with alone(planned.name, planned.title, opened.folder, cancelled, wait):
        if not job.wanted.fresh and opened.complete(planned.name):
            return Exists()
        with slots.slot(planned.title, cancelled, wait) as cpu:
            if cancelled():
                raise KeyboardInterrupt
            make(job, cpu, say)
    return Performed()


@contextmanager
def alone(
    name: str, title: str, runs: Path, cancelled: Cancelled, tell: Callable[[str], None]
) -> Iterator[None]:
    """Hold the lock of a run of this name in a folder; wait while another process holds it. `tell`
    receives what this waits for."""
    # Per user, because a user cannot lock the file of another user.
    named = runs / f"{MAKING}{os.getuid()}-{name}"
    elsewhere = "write to another folder with --into DIR"

    def held_by() -> str:
        by = locks.holder(named)
        return f"for the same run: {by.describe() if by else 'it has just ended'}"

    with locks.wait_for(lambda: locks.take(named, title, elsewhere), held_by, cancelled, tell):
        yield


def make(job: Job, cpu: int | None, say: Say) -> Path:
    """Perform one run and return its folder; a failed run leaves nothing behind."""
    planned = job.planned
    _check_unchanged(planned)
    copied = code.copied(
        planned.driving, planned.kit.interpreter if planned.kit else (here.python(),)
    )
    experiment = code.OWN_LAB if planned.source else planned.experiment
    started = time.time()
    mode = None
    with Staging(job.opened.folder, planned.name) as staging:
        staging.write_json(INPUTS, _for_the_guest(planned))

        def on_line(line: str) -> None:
            if line.startswith(PREFIX):
                say(Line(line.removeprefix(PREFIX)))

        try:
            if planned.kernel and planned.kit:
                root = planned.kit.kept_root()
                mode = boot(
                    planned.kernel.path,
                    root=root.folder,
                    staging=staging.folder,
                    code=copied.folder,
                    argv=guest.argv(Path(PYTHON), INSIDE_CODE, VIRTUAL.module, experiment),
                    memory_mib=planned.inputs["memory_mib"],
                    seed=planned.inputs["seed"],
                    cpu=cpu,
                    on_line=on_line,
                    modes=_modes(job),
                )
                check(root)
            else:
                module = TESTBEDS[planned.inputs["testbed"]].module
                argv = guest.argv(here.python(), str(copied.folder), module, experiment)
                _here(argv, staging.folder, on_line)
        except RunFailed as error:
            check_room(staging.folder)
            _raise_failure(planned, staging.folder)
            reason = without_colours(str(error))
            raise RunFailed(f"{planned.lab} {planned.condition.name}: {reason}") from error
        staging.check()
        _raise_failure(planned, staging.folder)
        check(copied)
        _check_output(planned, staging.folder)
        folder = staging.seal(_about_this_machine(started, mode, job.audited))
        job.opened.hashed(planned.name, staging.hashed)
        return folder


def without_colours(text: str) -> str:
    """A text without the escape sequences with which Python 3.13 colours tracebacks."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def _for_the_guest(planned: Planned) -> dict[str, Any]:
    """The file that the run reads: its inputs, and data about kernel, programs and machines."""
    if planned.machines:
        versions = planned.machines.versions
    elif planned.kit:
        versions = planned.kit.versions(planned.programs)
    else:
        versions = here.versions(planned.programs, here.python())
    return {
        "inputs": planned.inputs,
        "key": planned.key,
        "hz": planned.kernel.hz if planned.kernel else None,
        "versions": versions,
        "ssh_config": str(planned.machines.ssh_config) if planned.machines else None,
    }


def _check_unchanged(planned: Planned) -> None:
    """RunFailed if the kernel, or on this machine's own a program, changed since the plan; the root
    of a guest is verified by itself."""
    used: dict[str, Any] = {}
    if planned.kernel:
        same = content_digest(planned.kernel.path) == planned.kernel.sha256
        used = {"the kernel": same}
    elif not planned.machines:
        digests = here.digests(planned.programs, here.python())
        used = {what: digests[what] == planned.inputs[what] for what in digests}
    if changed := [what for what, same in used.items() if not same]:
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
    printed = []
    try:
        for line in process.stdout:
            printed.append(line.strip())
            on_line(line.rstrip())
    except BaseException:
        process.terminate()
        raise
    finally:
        exit_code = process.wait()
    if exit_code:
        raise RunFailed(f"the run ended with exit code {exit_code}: {' | '.join(printed[-3:])}")


def _raise_failure(planned: Planned, folder: Path) -> None:
    """Raise the error that the run itself recorded, if it recorded one."""
    try:
        failure = read_json(folder / FAILURE)
        kind, message = str(failure["kind"]), str(failure["message"])
    except (Damaged, KeyError):
        return  # there is none, or it was cut short with the run that wrote it
    raise BRANCHES.get(kind, RunFailed)(f"{planned.lab} {planned.condition.name}: {message}")


def _check_output(planned: Planned, folder: Path) -> None:
    """RunFailed if the raw output cannot be read: such a run is never sealed."""
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    try:
        raw_files.check(folder, names)
    except Damaged as error:
        raise RunFailed(
            f"{planned.lab} {planned.condition.name}: the output of the run cannot be read: "
            f"{error}. The run was discarded. Run it again, or with other parameters"
        ) from error


def _processor() -> str | None:
    """The model of this machine's processor."""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
        models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        return next(models, None)


def _modes(job: Job) -> tuple[str, ...]:
    """How the kernel of a run may be booted: as the user asks, or, for a lab that is not of this
    package, only in the mode in which its programs cannot leave the kernel."""
    asked = job.wanted.boot
    if asked in EITHER:
        return (asked,)
    if asked != AUTO:
        raise BadInput(f"{BOOT}={asked} is not allowed. Allowed: {AUTO}, {', '.join(EITHER)}")
    return (PTRACE,) if job.planned.source else EITHER


def _about_this_machine(
    started: float, mode: str | None, audited: Collected | None
) -> dict[str, Any]:
    """Data that may differ between two equal runs; `mode` is that of the virtual kernel."""
    return {
        **({} if mode is None else {"boot": mode}),
        **({} if audited is None else {AUDIT: audited}),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "real_s": round(time.time() - started, 3),
        "uname": list(platform.uname()),
        "cpu": _processor(),
        "cpus": os.cpu_count(),
        "load": list(os.getloadavg()),
    }


def check_room(folder: Path) -> None:
    """Missing if `folder` accepts no more files or bytes."""
    probe = folder / f".room-{os.urandom(6).hex()}"
    with written_to(folder.parent):
        with probe.open("xb") as file:
            file.write(bytes(PROBE_BYTES))
        probe.unlink()
