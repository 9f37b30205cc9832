"""How a kernel ended that left no result: its exit status, and what around it can be the cause."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from labs.drive.kernel.memory import available_mib
from labs.guest.units import MIB

FEW_MIB = 64
"""With less left, memory or the folder of the memory was probably exhausted."""
HANDLED = 1  # arch/um/os-Linux/main.c, last_ditch_exit
SHELL_SIGNAL = 128
"""A shell reports a program that a signal ended by this much more than the signal's number."""
LIMITS = {
    "ulimit -v": ("RLIMIT_AS", MIB, "MiB"),
    "ulimit -f": ("RLIMIT_FSIZE", MIB, "MiB"),
    "ulimit -t": ("RLIMIT_CPU", 1, "s"),
    "ulimit -u": ("RLIMIT_NPROC", 1, "processes"),
    "ulimit -n": ("RLIMIT_NOFILE", 1, "files"),
}
ADDR_NO_RANDOMIZE = 0x40000  # harmless: personality(2), set by setarch -R
LOOSE_FILES = 1024
"""The usual limit of open files, which suffices and need not be named."""


@dataclass(frozen=True)
class Surroundings:
    """What a machine offers a kernel: free memory, room for the guest's memory, and how many
    processes it has killed for want of memory."""

    folder: Path
    free_mib: int
    available_mib: int
    oom_kills: int

    @classmethod
    def of(cls, folder: Path) -> Surroundings:
        """Those at this moment, with the guest's memory in `folder`."""
        room = os.statvfs(folder)
        return cls(folder, room.f_bavail * room.f_frsize // MIB, available_mib(), _oom_kills())


def in_words(exit_code: int | None, before: Surroundings, now: Surroundings) -> str:
    """One clause about the end, then what may have caused it, the likeliest first."""
    said = [_status(exit_code)]
    killed = now.oom_kills - before.oom_kills
    if killed > 0:
        said.append(f"for want of memory this machine killed {killed} of its processes meanwhile")
    if now.free_mib < FEW_MIB:
        said.append(f"{now.folder}, which holds the guest's memory, is full")
    said += list(unusual())
    said.append(
        f"free: {now.available_mib} MiB of memory, {now.free_mib} MiB in {now.folder}; "
        f"limits: {', '.join(limits()) or 'none'}"
    )
    return "; ".join(said)


def limits() -> list[str]:
    """The limits of this process that a kernel can reach: `ulimit -v 5000 MiB`."""
    import resource  # noqa: PLC0415  not on every system

    found = []
    for name, (limit, unit, word) in LIMITS.items():
        soft, _ = resource.getrlimit(getattr(resource, limit))
        if soft == resource.RLIM_INFINITY or (name == "ulimit -n" and soft >= LOOSE_FILES):
            continue
        if name == "ulimit -u" and os.geteuid() == 0:
            continue  # it does not apply to root
        found.append(f"{name} {soft // unit} {word}")
    return found


def unusual() -> Iterator[str]:
    """What this process was started with that a kernel may not stand: a tracer, a personality."""
    tracer = _field("/proc/self/status", "TracerPid:")
    if tracer not in ("", "0"):
        yield f"process {tracer} traces this process, as strace does"
    flags = int(_field("/proc/self/personality") or "0", 16) & ~ADDR_NO_RANDOMIZE
    if flags:
        yield f"this process has personality {flags:#x}, as set by setarch(8)"


def _field(path: str, name: str = "") -> str:
    """The word after `name` in a file of /proc, or its first word; empty if there is none."""
    try:
        text = Path(path).read_text("ascii")
    except OSError:
        return ""
    words = text.partition(name)[2].split() if name else text.split()
    return words[0] if words else ""


def _status(exit_code: int | None) -> str:
    if exit_code is None:
        return "it was still running"
    if exit_code > SHELL_SIGNAL:
        exit_code = SHELL_SIGNAL - exit_code
    if exit_code >= 0:
        handled = ", as after SIGTERM, SIGINT or SIGHUP" if exit_code == HANDLED else ""
        return f"its exit code was {exit_code}{handled}"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = f"signal {-exit_code}"
    sender = {
        "SIGKILL": ", which another process or this machine's kernel sent",
        "SIGBUS": ", as when its memory cannot be read or stored",
        "SIGXCPU": ", as at the limit of CPU time",
        "SIGXFSZ": ", as at the limit of file size",
    }.get(name, "")
    return f"{name} ended it{sender}"


def _oom_kills() -> int:
    """The processes that this machine has killed for want of memory."""
    return int(_field("/proc/vmstat", "\noom_kill ") or 0)
