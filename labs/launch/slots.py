"""Places for runs side by side: bounded over all users of a machine, each with a CPU of its own."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator

from labs.drive.kernel.memory import TOUCHED_MIB, available_mib
from labs.errors import BadInput, Missing

WAIT_S = 0.2
# An abstract socket's name: every user of the machine sees it, and no file has to be cleared.
NAME = "\0labs-slot-"


def limit() -> int:
    """How many runs may go on at once on this machine: LABS_JOBS, or one a CPU."""
    named = os.environ.get("LABS_JOBS")
    if named is None:
        return len(cpus())
    if not named.isascii() or not named.isdigit() or not 1 <= int(named) <= 1024:
        raise BadInput(f"LABS_JOBS is '{named}'; it is a whole number from 1 to 1024")
    return int(named)


def side_by_side(asked: int | None, missing: int) -> int:
    """How many of the missing runs to make at once: what is asked for or the limit, and no more
    than the free memory holds; one at least, which then says itself what it lacks."""
    return max(1, min(asked or limit(), missing, available_mib() // TOUCHED_MIB))


def cpus() -> list[int]:
    """The CPUs that this process may use."""
    return sorted(os.sched_getaffinity(0))


def take() -> tuple[int, socket.socket] | None:
    """A free slot, held by an abstract socket name: machine-wide, and gone with its process."""
    for slot in range(limit()):
        name = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            name.bind(f"{NAME}{slot}")
        except OSError:
            name.close()
            continue
        return slot, name
    return None


@contextlib.contextmanager
def slot(cancelled: Callable[[], bool]) -> Iterator[int]:
    """Wait for a place and give the CPU to pin to; Missing if memory for a run is not there."""
    while (held := take()) is None:
        if cancelled():
            raise KeyboardInterrupt
        time.sleep(WAIT_S)
    number, name = held
    try:
        free_mib = available_mib()
        if free_mib < TOUCHED_MIB:
            raise Missing(
                f"a run needs {TOUCHED_MIB} MiB of memory and {free_mib} are free; "
                "close something, or lower LABS_JOBS"
            )
        allowed = cpus()
        yield allowed[number % len(allowed)]
    finally:
        name.close()
