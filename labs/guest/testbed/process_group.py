"""Process groups of this machine: list their members, signal them, wait without polling."""

from __future__ import annotations

import os
import select
import time
from math import ceil

# How long a killed process may take to end: it cannot block SIGKILL, but disk I/O can delay it.
KILLED_S = 10.0


def readable(fd: int, timeout_s: float | None) -> bool:
    """Sleep until `fd` is readable; False after `timeout_s`."""
    waiter = select.poll()
    waiter.register(fd, select.POLLIN)
    return bool(waiter.poll(None if timeout_s is None else max(0, ceil(timeout_s * 1000))))


def signal_group(group: int, number: int) -> bool:
    """Signal a process group; False if it contains no process that we may signal."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _stat(pid: int | str) -> list[bytes] | None:
    """The fields of /proc/PID/stat from the third (state) on; None if no such process exists."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            # The second field, the name, may contain spaces and parentheses; the third follows
            # the last closing parenthesis.
            return stat.read().rpartition(b")")[2].split()
    except OSError:
        return None


def _stats(group: int) -> dict[int, list[bytes]]:
    """The fields of each process of a group by process id, zombies included."""
    stats = {int(name): _stat(name) for name in os.listdir("/proc") if name.isdigit()}
    return {pid: fields for pid, fields in stats.items() if fields and int(fields[2]) == group}


def members(group: int) -> list[int]:
    """The processes of a group, without zombies."""
    return [pid for pid, fields in _stats(group).items() if fields[0] not in (b"Z", b"X")]


def cpu_s(group: int) -> float:
    """The CPU time in seconds of a group's processes and of the children they have waited for."""
    # utime, stime, cutime, cstime: fields 14 to 17 of proc_pid_stat(5).
    ticks = sum(int(field) for fields in _stats(group).values() for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def stopped(pid: int) -> bool:
    """Whether a process is stopped, by a signal or by its tracer."""
    fields = _stat(pid)
    return fields is not None and fields[0] in (b"T", b"t")


def await_end(pid: int, timeout_s: float) -> bool:
    """Sleep until a process, not necessarily a child, has ended; False after `timeout_s`."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return readable(fd, timeout_s)
    finally:
        os.close(fd)


def await_group(group: int, timeout_s: float) -> list[int]:
    """Sleep until all processes of a group have ended; return those that remain after `timeout_s`.

    Zombies count as ended.
    """
    deadline = time.monotonic() + timeout_s
    while signal_group(group, 0) and (rest := members(group)):
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return rest
        await_end(rest[0], left_s)
    return []
