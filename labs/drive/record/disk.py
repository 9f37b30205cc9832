"""How files and folders are written: whole, or not at all, and cleared after a kill.

A file is written under another name (`whole_file`) and a temporary folder has a lock in it
(`owned_folder`), so that the next process can clear what a killed one left. A folder is removed
only if its lock names it (`removal`).
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from labs.drive.record.lock import LOCK, LOCK_MODE, Lock, numbered
from labs.drive.record.removal import Made, empty_folder, is_own_folder, say_removed
from labs.errors import BadInput, Missing

UNFINISHED = re.compile(r"\.new-.+-\d+-\d+", re.DOTALL)
RANDOM = re.compile(r"[0-9a-f]{12}")
NO_ROOM = {errno.ENOSPC, errno.EDQUOT}
NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP}
REFUSED = {
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOENT,
    errno.EEXIST,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.ELOOP,
}


@contextmanager
def written_to(
    folder: Path, next_step: str = "write to another folder with --into DIR"
) -> Iterator[None]:
    """Turn an OSError of writing below `folder` into Missing (no room) or BadInput (no right)."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            raise Missing(
                f"no room is left on the disk of {folder}; free some, or {next_step}"
            ) from error
        if error.errno in NO_LOCKS:
            raise Missing(
                f"the file system of {folder} has no file locks; {next_step}, on a local disk"
            ) from error
        if error.errno in REFUSED:
            raise BadInput(f"{folder} cannot be written ({error.strerror}); {next_step}") from error
        raise


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open `path` for writing bytes; it has its name once the block ends without an error.

    It is written as `.new-NAME-PID-N`. A file of that name is replaced. Raises Missing if the disk
    is full, BadInput if the user may not write there.
    """
    with written_to(path.parent, "name a file in another folder"):
        path.parent.mkdir(parents=True, exist_ok=True)
        clear_unfinished(path.parent, glob.escape(path.name))
        with Lock.new(numbered(path, ".new")) as part:
            with os.fdopen(os.dup(part.descriptor), "wb") as file:
                yield file
                file.flush()
                if hasattr(os, "fchmod"):
                    os.fchmod(part.descriptor, 0o644)
                os.fsync(part.descriptor)
            part.path.replace(path)


def write_whole(path: Path, content: bytes) -> None:
    """Write a small file whole."""
    with whole_file(path) as file:
        file.write(content)


def clear_unfinished(folder: Path, names: str) -> None:
    """Clear what killed writers of files left in a folder; `names` is a pattern of their names.

    An unfinished file is its own lock: only its user can read it, unlike a finished one.
    """
    for path in folder.glob(f".new-{names}-*-*"):
        left = Lock.of_a_dead_owner(path) if UNFINISHED.fullmatch(path.name) else None
        if left is not None and stat.S_IMODE(os.fstat(left.descriptor).st_mode) == LOCK_MODE:
            left.release()
            say_removed(str(path))
        elif left is not None:
            left.let_go()


@contextmanager
def owned_folder(prefix: str, where: Path) -> Iterator[Path]:
    """A new folder in `where`, removed when the block ends; OSError if `where` cannot be written.

    Folders of the same prefix whose owner is gone, and that are this user's, are removed first.
    """
    clear_folders(prefix, where)
    lock = Lock.new(lambda: _new_folder(prefix, where) / LOCK)
    made = Made.of(lock.path.parent)
    try:
        lock.note(folder=made)
        yield lock.path.parent
    finally:
        _remove(lock, made)


def clear_folders(prefix: str, where: Path) -> None:
    """Remove the folders of a prefix whose owner is gone, that are this user's, and whose lock
    says that they were made here. One without a lock is removed if it is empty."""
    for folder in where.glob(prefix + "*"):
        if not RANDOM.fullmatch(folder.name.removeprefix(prefix)) or not is_own_folder(folder):
            continue
        lock = Lock.of_a_dead_owner(folder / LOCK)
        if lock is None:
            with contextlib.suppress(OSError):
                folder.rmdir()  # its owner was killed before the lock was created
        elif (made := lock.made("folder")) is not None:
            if _remove(lock, made):
                say_removed(str(folder))
        elif os.listdir(folder) == [LOCK]:
            _remove(lock, Made.of(folder))  # its owner was killed before anything was written
        else:
            lock.let_go()


def _remove(lock: Lock, made: Made) -> bool:
    """Remove the folder of a lock, with the lock as its last file; whether it is gone."""
    folder = lock.path.parent
    if not empty_folder(folder, made, keep=LOCK) or set(os.listdir(folder)) > {LOCK}:
        lock.let_go()  # the next one tries again
        return False
    lock.release()
    with contextlib.suppress(OSError):
        folder.rmdir()
    return not folder.exists()


def _new_folder(prefix: str, where: Path) -> Path:
    """A folder of a random name. Until it is locked, another process may take it for a leftover
    and remove it: then the next name is taken."""
    while True:
        folder = where / f"{prefix}{os.urandom(6).hex()}"
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            return folder
