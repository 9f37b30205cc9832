"""Locks that one process holds at a time, and messages for the processes that wait for them.

A lock is a file locked with flock(2) (`labs.drive.record.disk`); its content names the holder.
The kernel releases it when the process ends, however it ends. In a folder that several users may
write to, another user can create the file first, and then hold it for ever: such a file is not a
lock of this user, and a further name is used.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from labs.drive.record.disk import LOCK_MODE, NOT_A_LINK, OwnedPath, written_to
from labs.drive.record.removal import is_single_file
from labs.drive.record.stored_files import read_bytes
from labs.errors import Damaged

SHORTEST_LOOK_S, LOOK_S = 0.005, 0.2
"""How long a wait sleeps between attempts: at first, and after some doublings."""
MOST_BYTES = 4096
STRANGER_S = 60.0
"""So long a lock may be held by a process that is not to be seen here, such as in a container."""
TELL_AGAIN_S = 60.0

Found = TypeVar("Found")


@dataclass(frozen=True)
class Holder:
    """The holder of a lock: its process id, its purpose, since when (seconds since 1970), and
    whether its work has begun or still waits for something else."""

    pid: int
    what: str
    since_s: float
    begun: bool

    def describe(self) -> str:
        """Such as "process 4711 (both, for 12 s)"."""
        held_s = max(0, round(time.time() - self.since_s))
        held = f"{held_s} s" if held_s < 120 else f"{held_s // 60} min"
        return f"process {self.pid} ({self.what}, {'for' if self.begun else 'waiting for'} {held})"


def take(path: Path, what: str, next_step: str, *, begun: bool = True) -> OwnedPath | None:
    """Lock a path and write its holder into it; None if another process holds it.

    `begun` is false if the holder first waits for something else. BadInput or Missing, with
    `next_step`, if the path cannot be written or locked.
    """
    import fcntl  # noqa: PLC0415  not on every system

    with written_to(path.parent, next_step):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | NOT_A_LINK, LOCK_MODE)
        owned = OwnedPath(path, descriptor)
        try:
            about = os.fstat(descriptor)
            if about.st_nlink == 0:  # the last holder has just removed it
                raise FileNotFoundError(errno.ENOENT, f"{path.name} is gone")
            if not is_single_file(about):
                raise PermissionError(errno.EPERM, f"{path.name} is not a lock of this user")
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The last holder may have removed the file before releasing the lock.
            if path.exists() and os.path.samestat(path.stat(), os.fstat(descriptor)):
                name(owned, what, begun=begun)
                return owned
        except (BlockingIOError, FileNotFoundError):
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None


def of_this_user(path: Path) -> Path:
    """`path`, or the first of PATH.1, PATH.2 and so on that no other user holds."""
    for number in itertools.count():
        candidate = path.with_name(f"{path.name}.{number}") if number else path
        if not _is_a_strangers(candidate):
            return candidate
    raise AssertionError("unreachable")


def user_of(path: Path) -> str:
    """The user whose file it is: the name, or the number of a user without one."""
    import pwd  # noqa: PLC0415  not on every system

    try:
        number = path.lstat().st_uid
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
    except OSError:
        return "unknown"


def _is_a_strangers(path: Path) -> bool:
    """Whether a file cannot be a lock of this user, or is locked by nobody whom it names."""
    try:
        about = path.lstat()
    except OSError:
        return False
    if not is_single_file(about):
        return True
    if time.time() - about.st_mtime < STRANGER_S:
        return False
    free = OwnedPath.of_a_dead_owner(path)
    if free is not None:
        free.release()
        return False
    by = _read(path)
    return by is None or not Path("/proc", str(by.pid)).exists()


def name(owned: OwnedPath, what: str, *, begun: bool) -> None:
    """Write the new holder of a lock, and its purpose, into the file."""
    words = json.dumps(asdict(Holder(os.getpid(), what, time.time(), begun))).encode()
    os.ftruncate(owned.descriptor, 0)
    os.pwrite(owned.descriptor, words, 0)


def holder(path: Path) -> Holder | None:
    """The holder of a lock; None if it is free. The file of a killed process is removed."""
    if not path.exists():
        return None
    free = OwnedPath.of_a_dead_owner(path)
    if free is not None:
        free.release()
        return None
    return _read(path)


def _read(path: Path) -> Holder | None:
    """The holder named in a lock; None just before the holder has written it."""
    try:
        stored = json.loads(read_bytes(path, most_bytes=MOST_BYTES))
        return Holder(
            int(stored["pid"]), str(stored["what"]), float(stored["since_s"]), bool(stored["begun"])
        )
    except (Damaged, ValueError, TypeError, KeyError):
        return None


def wait_for(
    attempt: Callable[[], Found | None],
    what: Callable[[], str],
    cancelled: Callable[[], bool],
    tell: Callable[[str], None],
) -> Found:
    """Call `attempt` until it returns something; KeyboardInterrupt once `cancelled` returns true.

    `tell` receives what this waits for if that takes longer than an inspection, and then every
    minute.
    """
    begun_s, told_s, look_s = time.monotonic(), -TELL_AGAIN_S, SHORTEST_LOOK_S
    while (result := attempt()) is None:
        if cancelled():
            raise KeyboardInterrupt
        # A process that inspects a lock holds it for an instant, so first attempts may fail.
        now_s = time.monotonic()
        if now_s - begun_s >= LOOK_S and now_s - told_s >= TELL_AGAIN_S:
            tell(what())
            told_s = now_s
        time.sleep(look_s)
        look_s = min(2 * look_s, LOOK_S)
    return result
