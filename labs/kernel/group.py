"""Process groups of this machine: who is in one, signals to it, and waiting without polling."""

from __future__ import annotations

import contextlib
import os
import select
import time
from math import ceil

# How long a killed process may take to be gone: it cannot refuse, but a disk can hold it.
KILLED_S = 10.0


def readable(fd: int, timeout_s: float | None) -> bool:
    """Sleep until `fd` can be read; False when the time is over."""
    waiter = select.poll()
    waiter.register(fd, select.POLLIN)
    return bool(waiter.poll(None if timeout_s is None else max(0, ceil(timeout_s * 1000))))


def signal_group(group: int, number: int) -> bool:
    """Signal a process group; False if there is nothing of it that we may signal."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def members(group: int) -> list[int]:
    """The processes of a group that run; those that have ended, and wait for their parent to
    notice, do not."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as stat:
                # The name before it may hold blanks and brackets: state and group follow the last.
                state, _, its_group = stat.read().rpartition(b")")[2].split()[:3]
                if int(its_group) == group and state not in (b"Z", b"X"):
                    found.append(int(name))
    return found


def await_end(pid: int, timeout_s: float) -> bool:
    """Sleep until a process, not necessarily a child, has ended; False when the time is over."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return readable(fd, timeout_s)
    finally:
        os.close(fd)


def await_group(group: int, timeout_s: float) -> list[int]:
    """Sleep until nothing of a group runs; those that still do when the time is over."""
    deadline = time.monotonic() + timeout_s
    while signal_group(group, 0) and (rest := members(group)):
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return rest
        await_end(rest[0], left_s)
    return []
