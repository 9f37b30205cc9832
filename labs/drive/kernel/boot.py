"""Boot a User-Mode Linux kernel on virtual time, run one program inside, halt.

The kernel's command line and its memory are inputs of its random generator, so the words below
are the same on every machine: what differs from run to run (folders, parameters) comes in by way
of the working directory, and only the seed stands on the command line.

Inside, nothing of this machine shows but four folders: a root of its own
(`labs.drive.kernel.guest_root`) and the driving code at /run/labs/code, both read-only; the
program's words; and the folder of the run at /run/labs/run, the only one that can be written.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from labs.drive.kernel.memory import candidates, memory_folder
from labs.drive.kernel.process_group import (
    KILLED_S,
    await_group,
    cpu_s,
    readable,
    signal_group,
    stopped,
)
from labs.drive.kernel.watchdog import LOOK_S, Gauges, Limits, Watchdog
from labs.drive.programs.init import EXIT_LINE, INIT, PYTHON
from labs.drive.record.disk import clear_folders, owned_folder
from labs.drive.units import MIB
from labs.errors import RunFailed

# Any constant does; a date after the article's kernels makes certificates and logs plausible.
EPOCH_NS = 1_790_000_000_000_000_000
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
LEFTOVER = "labs-boot-"
CONSOLE_S = 0.05  # how long the console is left unread
CONSOLE_BYTES = 64 * MIB
TAIL_BYTES = 8192
LIMITS = Limits()

# A guest's processes are processes of this machine whose system calls the kernel catches: one that
# outlived the kernel would make them here. So, beside the kernel and in its group, a shell reads
# from a pipe that ends when the owner dies, however it dies, and kills all of the group at once.
_GUARD = """\
exec 9<&0 </dev/null
{ read -r _ <&9; kill -KILL 0; } &
exec 9<&-
exec "$@"
"""


def command_line(memory_mib: int, seed: int) -> tuple[str, ...]:
    """The kernel's words: constant but for the memory and the seed, which are a run's inputs."""
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
        f"init={PYTHON}",
        "--",
        "-I",
        "-S",
        INIT,
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
) -> None:
    """Boot `kernel`, run `argv` inside as its root, halt; return when it ended with exit code 0.

    `root` is the folder that the guest has as its root, `staging` is writable inside at
    /run/labs/run, `code` readable at /run/labs/code. `on_line` gets each line that the console
    shows. RunFailed, with the tail of the console, when the program fails, the kernel panics, or a
    program inside spins or waits beyond `limits`, however slow this machine is; Missing when no
    folder can hold the guest's memory. The kernel's whole process group is gone when this returns
    or raises.
    """
    with _boot_folder(memory_mib) as folder:
        (folder / "guest").symlink_to(root.resolve())
        (folder / "run").symlink_to(staging.resolve())
        (folder / "code").symlink_to(code.resolve())
        inner = folder / "boot"
        inner.mkdir()
        (inner / "argv").write_bytes(b"\0".join(word.encode() for word in argv) + b"\0")
        console = folder / "console"
        # A regular file as console: a pipe could fill and make the guest wait on real time.
        with (
            console.open("wb") as output,
            _started(
                kernel, command_line(memory_mib, seed), folder, cpu, output.fileno()
            ) as process,
        ):
            _watch(process.pid, Gauges(kernel), limits, console, on_line or _ignore)
        _judge(console)


@contextlib.contextmanager
def _started(
    kernel: Path, words: tuple[str, ...], folder: Path, cpu: int | None, output: int
) -> Iterator[subprocess.Popen[bytes]]:
    """A kernel that runs in a process group of its own, all of which is gone afterwards."""
    pinned = () if cpu is None else ("taskset", "-c", str(cpu))
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


def _ignore(line: str) -> None:
    pass


def _watch(
    pid: int, gauges: Gauges, limits: Limits, console: Path, on_line: Callable[[str], None]
) -> None:
    """Follow the console until the kernel ends; RunFailed when the watchdog ends it, or when it
    prints far too much."""
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
                        f"{CONSOLE_BYTES >> 20} MiB and was ended; its console ends: "
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
                            f"the virtual kernel was ended because {reason}. Its "
                            f"console ends: {tail(console)}"
                        )
                    seen_before, waited_s = seen, 0.0
    finally:
        os.close(ended)


def _judge(console: Path) -> None:
    """RunFailed unless the console shows that the program inside ended with exit code 0."""
    text = console.read_text("utf-8", "replace")
    _, found, after = text.rpartition(EXIT_LINE)
    status = after.split("\n", 1)[0].strip() if found else ""
    if status == "0":
        return
    if status:
        raise RunFailed(
            f"the program inside the virtual kernel ended with exit code {status}; "
            f"the console ends: {tail(console)}"
        )
    raise RunFailed(f"the virtual kernel ended without a result; its console ends: {tail(console)}")


def tail(console: Path, lines: int = 6) -> str:
    """The last lines of a console, as one line."""
    with console.open("rb") as file:
        file.seek(max(0, console.stat().st_size - TAIL_BYTES))
        text = file.read().decode("utf-8", "replace")
    return " | ".join([line.strip() for line in text.splitlines() if line.strip()][-lines:])


@contextlib.contextmanager
def _boot_folder(memory_mib: int) -> Iterator[Path]:
    """A folder for one boot (memory, console, UML's own files), gone when it is over."""
    where = memory_folder(memory_mib)
    # A killed boot may have been given another folder than this one.
    for _, other in candidates():
        clear_folders(LEFTOVER, other)
    with owned_folder(LEFTOVER, where) as folder:
        yield folder
