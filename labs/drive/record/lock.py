"""Locks: files that a process locks with flock(2), which the kernel lets go when the process ends,
also after kill -9.

Whoever finds a lock free knows that its owner is gone, and may clear what it stands for: a file
that was not written to its end (`disk.whole_file`), a temporary folder (`disk.owned_folder`), a run
that was not sealed (`run_folder`), or what a journal names (`testbed/namespaces`). A lock is a
regular file of this user with one name to which nobody else can write; anything else under its name
is refused.

Between the creation of a lock file and locking it, another process may find it free; therefore both
sides check, once they have the lock, whether the path still names the file that they locked.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from labs.drive.record.removal import Made, is_private_file
from labs.drive.record.stored_files import read_json
from labs.errors import Damaged

LOCK = "lock"
"""The lock of a folder, in it."""
LOCK_MODE = 0o600
"""Whoever can open a file can lock it, and so keep its user waiting."""
NOT_A_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
MOST_NOTED_BYTES = 4096
_numbers = itertools.count(1)


class Lock(AbstractContextManager["Lock"]):
    """A lock file that this process holds; as a context manager it is removed at the end."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self.descriptor = path, descriptor

    @classmethod
    def new(cls, next_path: Callable[[], Path]) -> Lock:
        """Create and lock the first path that `next_path` gives and that does not exist yet."""
        while True:
            path = next_path()
            with suppress(FileExistsError):
                try:
                    lock = _opened(path, os.O_CREAT | os.O_EXCL, wait=True)
                except FileNotFoundError:
                    if path.name != LOCK:
                        raise
                    lock = None  # its new folder was taken for a leftover
                if lock:
                    return lock

    @classmethod
    def take(cls, path: Path) -> Lock | None:
        """Lock a path, created if need be; None if another process holds it.

        PermissionError or another OSError if it is not a lock of this user.
        """
        return _opened(path, os.O_CREAT)

    @classmethod
    def of_a_dead_owner(cls, path: Path) -> Lock | None:
        """Lock what an owner that is gone left; None if it lives, or if the path is not ours."""
        try:
            return _opened(path, 0)
        except OSError:
            return None

    def note(self, **values: object) -> None:
        """Write values into the lock, such as which folders its owner made (`removal.Made`)."""
        text = json.dumps(read_note(self.path) | values).encode()
        os.lseek(self.descriptor, 0, os.SEEK_SET)
        # In one call that leaves nothing of a longer text: after a kill it is the old or the new.
        os.write(self.descriptor, text.ljust(os.fstat(self.descriptor).st_size))

    def made(self, name: str) -> Made | None:
        """A folder that the owner noted under a name."""
        match read_note(self.path).get(name):
            case [int(device), int(inode)]:
                return Made(device, inode)
        return None

    def let_go(self) -> None:
        """Unlock the file and leave it."""
        os.close(self.descriptor)

    def release(self) -> None:
        """Remove the lock file, then let go: in the other order another could lock a dead file."""
        with suppress(FileNotFoundError, NotADirectoryError):
            if _names(self.path, self.descriptor):
                self.path.unlink()
        self.let_go()

    def __exit__(self, *error: object) -> None:
        self.release()


def numbered(path: Path, prefix: str) -> Callable[[], Path]:
    """Names beside `path` that no other process of this machine uses: PREFIX-NAME-PID-N."""
    return lambda: path.with_name(f"{prefix}-{path.name}-{os.getpid()}-{next(_numbers)}")


def abandoned(paths: Iterable[Path]) -> Iterator[Lock]:
    """Those of the lock files whose owner is gone, each held while its turn lasts."""
    for path in paths:
        lock = Lock.of_a_dead_owner(path)
        if lock is not None:
            with lock:
                yield lock


def read_note(path: Path) -> dict[str, object]:
    """What the owner of a lock noted in it; empty before, or if it cannot be read."""
    try:
        return read_json(path, most_bytes=MOST_NOTED_BYTES)
    except Damaged:
        return {}


def _opened(path: Path, flags: int, *, wait: bool = False) -> Lock | None:
    """Open and lock a file; None if another process holds it, or has just removed it."""
    descriptor = os.open(path, os.O_RDWR | NOT_A_LINK | flags, LOCK_MODE)
    try:
        about = os.fstat(descriptor)
        if about.st_nlink and not is_private_file(about):
            raise PermissionError(errno.EPERM, f"{path.name} is not a lock of this user")
        if _flock(descriptor, wait) and _names(path, descriptor):
            return Lock(path, descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _flock(descriptor: int, wait: bool) -> bool:
    try:
        import fcntl  # noqa: PLC0415  not on every system
    except ImportError:
        return wait  # what is held is never cleared there
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _names(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except (FileNotFoundError, NotADirectoryError):
        return False
