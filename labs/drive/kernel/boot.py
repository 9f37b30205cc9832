"""Boot a User-Mode Linux kernel in virtual time, run one program inside, and halt.

The kernel's command line and its memory are inputs of its random number generator, so the command
line is the same on every machine. Whatever differs from run to run (folders, parameters) is passed
through the working directory; only the memory size and the seed are on the command line.

Four folders of this machine are visible inside: the guest's own root
(`labs.drive.kernel.guest_root`) and the driving code at /run/labs/code, both read-only; the
arguments of the program; and the folder of the run at /run/labs/run, the only writable one.

The kernel stops the programs of its guest in one of two ways. In seccomp mode each program filters
its own system calls, which is faster, and works where ptrace is denied; but a program could reach
the memory of its kernel, and so act as the user who booted it. With ptrace it cannot. Both give the
same bytes.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from labs.drive.kernel.boot_end import Surroundings, in_words, unusual
from labs.drive.kernel.memory import candidates, memory_folder
from labs.drive.kernel.sandbox import both_refused, ptrace_refused, seccomp_refused
from labs.drive.kernel.watchdog import LOOK_S, Gauges, Limits, Watchdog
from labs.drive.record.disk import clear_folders, owned_folder
from labs.errors import Missing, RunFailed
from labs.guest.programs.init import EXIT_LINE, INIT, PYTHON
from labs.guest.testbed.process_group import (
    KILLED_S,
    await_group,
    cpu_s,
    readable,
    signal_group,
    stopped,
)
from labs.guest.units import MIB

# Any constant would do; a date after the article's kernels keeps certificates and logs plausible.
EPOCH_NS = 1_790_000_000_000_000_000
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
LEFTOVER = "labs-boot-"
CONSOLE_S = 0.05  # interval between two reads of the console
CONSOLE_BYTES = 64 * MIB
TAIL_BYTES = 8192
LIMITS = Limits()
SECCOMP, PTRACE = "seccomp", "ptrace"
EITHER = (SECCOMP, PTRACE)
# What a kernel that has seccomp mode prints if the machine denies it, before anything runs inside.
DENIED = "SECCOMP userspace requested but not functional"
# The name of the file from which a kernel starts its guest's programs, if it has a stub program.
STUB_PROGRAM = "uml-userspace"
# Buckets of the table of TCP connections. Each sample of the sockets walks through all of them, and
# a guest of 4 GiB has 65,536, which took a fifth of the time of a download at the line rate. The
# limits that a kernel derives from this number are set by the testbed (`virtual.LIMITS`).
TCP_BUCKETS = 1024
ALARM = re.compile(r"^labs: SIGALRM was sent by process (\d+) of user (\d+)\r?$", re.MULTILINE)

# A guest's processes are processes of this machine whose system calls the kernel intercepts. A
# process that outlived the kernel would make its system calls on this machine. Therefore a shell in
# the kernel's process group reads from a pipe that closes when the owner dies, however it dies;
# the shell then kills the whole group at once.
_GUARD = """\
exec 9<&0 </dev/null
{ read -r _ <&9; kill -KILL 0; } &
exec 9<&-
exec "$@"
"""


class _Ended(RunFailed):
    """The kernel ended without a result."""


def command_line(memory_mib: int, seed: int, mode: str = PTRACE) -> tuple[str, ...]:
    """The kernel's command line: constant except for memory and seed, which are inputs of a run,
    and for the mode, which User-Mode Linux removes before the kernel reads the line."""
    return (
        "root=/dev/root",
        "rootfstype=hostfs",
        "rootflags=proc/self/cwd/guest/.",
        "ro",
        f"mem={memory_mib}M",
        "time-travel=inf-cpu",
        f"time-travel-start={EPOCH_NS}",
        "con=null",
        "con0=fd:0,fd:1",
        f"labs.seed={seed}",
        f"thash_entries={TCP_BUCKETS}",
        *(("seccomp=on",) if mode == SECCOMP else ()),
        f"init={PYTHON}",
        "--",
        "-I",
        "-S",
        INIT,
    )


@dataclass(frozen=True)
class _Kernel:
    """A kernel's file: whether it has seccomp mode, whether it starts programs from a stub program,
    and its gauges."""

    path: Path
    has_seccomp: bool
    stub_program: bool
    gauges: Gauges

    @classmethod
    def of(cls, path: Path) -> _Kernel:
        """The kernel at `path`, read once for each version of the file; Missing if it cannot be."""
        try:
            about = path.stat()
            return _read(path, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
        except OSError as error:
            raise Missing(
                f"the kernel {path} cannot be read ({error.strerror}). Build it: labs kernel build"
            ) from None


@functools.lru_cache(maxsize=8)
def _read(path: Path, *version: int) -> _Kernel:
    content = path.read_bytes()
    return _Kernel(
        path, DENIED.encode() in content, STUB_PROGRAM.encode() in content, Gauges(content)
    )


def boot(
    kernel: Path,
    *,
    root: Path,
    staging: Path,
    code: Path,
    argv: tuple[str, ...],
    memory_mib: int = 4096,
    seed: int = 1,
    cpu: int | None = None,
    on_line: Callable[[str], None] | None = None,
    limits: Limits = LIMITS,
    modes: tuple[str, ...] = EITHER,
) -> str:
    """Boot `kernel`, run `argv` inside as root, halt, and return the mode if `argv` ended with exit
    code 0.

    `root` is the guest's root folder. Inside, `staging` is writable at /run/labs/run and `code`
    readable at /run/labs/code. `on_line` receives each line of the console. Of `modes`, the first
    that this kernel and this machine allow is used. Raises RunFailed, with the tail of the console,
    if the program fails, the kernel panics, or a program inside spins or waits beyond `limits`,
    which do not depend on the speed of this machine. Raises Missing if no folder can hold the
    guest's memory, if no mode works, or if the kernel cannot be read. The kernel's whole process
    group has ended when this returns or raises.
    """
    program = _Kernel.of(kernel)
    usable = [mode for mode in modes if mode == PTRACE or program.has_seccomp]
    denied: dict[str, str] = {}
    for mode in usable:
        words = command_line(memory_mib, seed, mode)
        try:
            _boot(program, words, root, staging, code, argv, memory_mib, cpu, on_line, limits)
        except _Ended as error:
            why = _denied(mode, program.stub_program, error)
            if why is None:
                raise
            denied[mode] = why
        else:
            return mode
    if PTRACE in denied and (why := denied.get(SECCOMP) or seccomp_refused(program.stub_program)):
        raise Missing(both_refused(denied[PTRACE], why))
    raise Missing(_no_mode(denied, program.has_seccomp))


def _denied(mode: str, stub_program: bool, error: _Ended) -> str | None:
    """Why this machine denies a mode, in one line; None if something else ended the kernel."""
    if mode == PTRACE:
        return ptrace_refused()
    said = "seccomp mode is denied" if DENIED in str(error) else None
    return seccomp_refused(stub_program) or said


def _no_mode(denied: dict[str, str], able: bool) -> str:
    """Why the modes that were asked for cannot be used, and what to do; one that was not asked for
    may work. `able` says whether the kernel has seccomp."""
    if SECCOMP in denied:
        return f"{denied[SECCOMP]}. Set LABS_BOOT=ptrace"
    if not able:
        why = f"{denied[PTRACE]}, and the" if denied else "the"
        return f"{why} kernel was built without seccomp mode. Build it again: labs kernel build"
    return (
        f"{denied[PTRACE]}. A lab of your own file is booted with ptrace unless told otherwise, "
        "because in seccomp mode it could act as you on this machine. If you trust it, set "
        "LABS_BOOT=seccomp"
    )


def _boot(
    kernel: _Kernel,
    words: tuple[str, ...],
    root: Path,
    staging: Path,
    code: Path,
    argv: tuple[str, ...],
    memory_mib: int,
    cpu: int | None,
    on_line: Callable[[str], None] | None,
    limits: Limits,
) -> None:
    """Boot once with this command line; `_Ended` if the kernel ended without a result."""
    with _boot_folder(memory_mib) as folder:
        (folder / "guest").symlink_to(root.resolve())
        (folder / "run").symlink_to(staging.resolve())
        (folder / "code").symlink_to(code.resolve())
        inner = folder / "boot"
        inner.mkdir()
        (inner / "argv").write_bytes(b"\0".join(word.encode() for word in argv) + b"\0")
        console = folder / "console"
        # The console is a regular file: a full pipe would make the guest wait in real time.
        with (
            console.open("wb") as output,
            _started(kernel.path, words, folder, cpu, output.fileno()) as process,
        ):
            before = Surroundings.of(folder.parent)
            _watch(process.pid, kernel.gauges, limits, console, on_line or _ignore)
            now = Surroundings.of(folder.parent)
        _judge(console, lambda: in_words(process.returncode, before, now))


@contextlib.contextmanager
def _started(
    kernel: Path, words: tuple[str, ...], folder: Path, cpu: int | None, output: int
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a kernel in its own process group; afterwards all processes of the group have ended."""
    pinned = ("taskset", "-c", str(cpu)) if cpu is not None and _may_pin() else ()
    watched, held = os.pipe()
    try:
        process = subprocess.Popen(
            ("sh", "-c", _GUARD, "sh", *pinned, str(kernel.resolve()), *words),
            cwd=folder,
            stdin=watched,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={"HOME": str(folder), "TMPDIR": str(folder), "PATH": PATH},
        )
        try:
            yield process
        finally:
            signal_group(process.pid, signal.SIGKILL)
            process.wait()
            await_group(process.pid, KILLED_S)
    finally:
        os.close(watched)
        os.close(held)


def _may_pin() -> bool:
    """Whether a process may choose its CPU; a filter of system calls may refuse that. Pinning makes
    a run faster and changes none of its bytes."""
    try:
        os.sched_setaffinity(0, os.sched_getaffinity(0))
    except OSError:
        return False
    return True


def _ignore(line: str) -> None:
    pass


def _watch(
    pid: int, gauges: Gauges, limits: Limits, console: Path, on_line: Callable[[str], None]
) -> None:
    """Follow the console until the kernel ends; RunFailed if the watchdog ends it, or if it prints
    more than CONSOLE_BYTES."""
    seen, begun = 0, b""
    watchdog, seen_before, waited_s = Watchdog(limits), 0, 0.0
    ended = os.pidfd_open(pid)
    try:
        over = False
        with console.open("rb") as lines:
            while not over:
                over = readable(ended, CONSOLE_S)
                waited_s += CONSOLE_S
                if fresh := lines.read():
                    seen += len(fresh)
                    *whole, begun = (begun + fresh).split(b"\n")
                    for line in whole:
                        on_line(line.decode("utf-8", "replace").rstrip("\r"))
                if seen > CONSOLE_BYTES:
                    raise RunFailed(
                        "the program inside the virtual kernel printed more than "
                        f"{CONSOLE_BYTES >> 20} MiB and was ended. The console ends: "
                        f"{tail(console)}"
                    )
                if waited_s >= LOOK_S and not over:
                    reason = watchdog.look(
                        gauges.read(pid),
                        seen > seen_before,
                        lambda: cpu_s(pid),
                        lambda: stopped(pid),
                    )
                    if reason:
                        raise RunFailed(
                            f"the virtual kernel was ended because {reason}. The "
                            f"console ends: {tail(console)}"
                        )
                    seen_before, waited_s = seen, 0.0
    finally:
        os.close(ended)


def _judge(console: Path, how: Callable[[], str]) -> None:
    """RunFailed unless the console shows that the program inside ended with exit code 0, and no
    process sent the kernel a signal that it takes for its own (patches/own-alarms.patch)."""
    text = console.read_text("utf-8", "replace")
    alarm = ALARM.search(text)
    if alarm:
        raise RunFailed(
            f"process {alarm[1]} of user {alarm[2]} sent SIGALRM to the virtual kernel, whose "
            "timers that changes. The run was ended. Run it again"
        )
    _, found, after = text.rpartition(EXIT_LINE)
    status = after.split("\n", 1)[0].strip() if found else ""
    if status == "0":
        return
    if status:
        about = "".join(f"; {one}" for one in unusual())
        raise RunFailed(
            f"the program inside the virtual kernel ended with exit code {status}{about}. "
            f"The console ends: {tail(console)}"
        )
    raise _Ended(
        f"the virtual kernel ended without a result: {how()}. The console ends: {tail(console)}"
    )


def tail(console: Path, lines: int = 6) -> str:
    """The last lines of a console, joined into one line."""
    with console.open("rb") as file:
        file.seek(max(0, console.stat().st_size - TAIL_BYTES))
        text = file.read().decode("utf-8", "replace")
    return " | ".join([line.strip() for line in text.splitlines() if line.strip()][-lines:])


@contextlib.contextmanager
def _boot_folder(memory_mib: int) -> Iterator[Path]:
    """A folder for one boot (memory, console, UML's own files), deleted afterwards."""
    where = memory_folder(memory_mib)
    # An earlier boot that was killed may have used another folder than this one, if this user can
    # read it: without HOME, the user that a container calls root has root's.
    for _, other in candidates():
        with contextlib.suppress(OSError):
            clear_folders(LEFTOVER, other)
    with owned_folder(LEFTOVER, where) as folder:
        yield folder
