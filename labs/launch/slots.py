"""Places for runs side by side: bounded over all users of a machine, each with a CPU of its own."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator

from labs.errors import BadInput, Missing
from labs.kernel.memory import TOUCHED_MIB, available_mib

WAIT_S = 0.2


def limit() -> int:
    """How many runs may go on at once on this machine: LABS_JOBS, or one a CPU."""
    named = os.environ.get("LABS_JOBS")
    if named is None:
        return len(cpus())
    if not named.isascii() or not named.isdigit() or not 1 <= int(named) <= 1024:
        raise BadInput(f"LABS_JOBS is '{named}'; it is a whole number from 1 to 1024")
    return int(named)


def cpus() -> list[int]:
    """The CPUs that this process may use."""
    return sorted(os.sched_getaffinity(0))


def take() -> tuple[int, socket.socket] | None:
    """A free slot, held by an abstract socket name: machine-wide, and gone with its process."""
    for slot in range(limit()):
        name = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            name.bind(f"\0labs-slot-{slot}")
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
            raise Missing(f"a run needs {TOUCHED_MIB} MiB of memory and {free_mib} are free; "
                          "close something, or lower LABS_JOBS")
        allowed = cpus()
        yield allowed[number % len(allowed)]
    finally:
        name.close()
