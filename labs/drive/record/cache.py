"""The user's cache: folders that nobody else can write to or read, for what can be rebuilt.

Files there are executed, or shown as results, so a folder that is a link, belongs to another user,
or that others can write to, is not used: `NotPrivateError` says so in one line. A folder that
others can only read, as earlier versions created it, is closed to them.
"""

from __future__ import annotations

import errno
import functools
import os
import re
import stat
import time
from contextlib import suppress
from pathlib import Path

from labs.drive.record.disk import clear_folders
from labs.drive.record.lock import NOT_A_LINK
from labs.drive.record.removal import (
    OTHERS_WRITE,
    Made,
    is_own,
    is_private_file,
    remove_folder,
    say,
)
from labs.errors import Missing

PRIVATE_MODE, PRIVATE_FILE_MODE = 0o700, 0o600
OTHERS = 0o077
KEPT_S = 7 * 24 * 3600.0


class NotPrivateError(PermissionError):
    """A folder of the cache that belongs to another user or others may write to, or a link."""


def cache() -> Path:
    """The folder for what can be rebuilt (kernels, copies of code), existing or not.

    Missing for a user without a home.
    """
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The specification of XDG_CACHE_HOME ignores relative paths.
    base = named if named.is_absolute() else Path(os.path.expanduser("~")) / ".cache"
    if not base.is_absolute():
        raise Missing(
            "this user has no home folder; name a folder for built kernels and copies "
            "of code in XDG_CACHE_HOME"
        )
    return base / "labs"


def private_folder(kind: str, *, make: bool = True) -> Path:
    """A folder in the cache, created if it does not exist, unless `make` is false.

    NotPrivateError if it is not this user's alone, another OSError if it cannot be made or opened,
    Missing for a user without a home.
    """
    root = cache()
    if make:
        root.parent.mkdir(PRIVATE_MODE, parents=True, exist_ok=True)
    for folder in (root, root / kind):
        if make:
            with suppress(FileExistsError):
                folder.mkdir(PRIVATE_MODE)
        _close_to_others(folder, trusted=folder == root)
    return root / kind


def opened_file(kind: str, name: str, flags: int) -> int:
    """The descriptor of a file in a folder of the cache, opened with these flags of os.open.

    Errors are those of `private_folder`; another OSError for a link, a file of another user, one
    with several names, and one that others may write to.
    """
    path = private_folder(kind, make=bool(flags & os.O_CREAT)) / name
    flags |= NOT_A_LINK | getattr(os, "O_BINARY", 0)  # Windows would write \r\n for \n
    descriptor = os.open(path, flags, PRIVATE_FILE_MODE)
    if is_private_file(os.fstat(descriptor)):
        return descriptor
    os.close(descriptor)
    raise PermissionError(errno.EACCES, f"{name} is not a file that only this user can write")


@functools.cache
def say_not_used(reason: str) -> None:
    """Say once in one line why nothing is kept."""
    say(f"the cache is not used: {reason}, or name another folder in XDG_CACHE_HOME")


def clear_kept(where: Path, making: str, name: re.Pattern[str], mark: str, what: str) -> None:
    """Remove what killed processes left in a folder, and the folders in it that were not used for a
    week; `mark` is the file of such a folder that is written last, and touched when it is used."""
    clear_folders(making, where)
    removed = 0
    for kept in where.glob("[!.]*"):
        with suppress(OSError):
            if name.fullmatch(kept.name) and time.time() - (kept / mark).lstat().st_mtime > KEPT_S:
                removed += remove_folder(kept, Made.of(kept))
    if removed:
        say(f"removed {removed} {what} in {where} that were not used for a week")


def _close_to_others(folder: Path, *, trusted: bool) -> None:
    """Close a folder to other users. A folder that they could write to is used only if it is
    `trusted`: the cache itself contains only folders, which are checked one by one."""
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode):
        raise NotPrivateError(errno.EACCES, f"{folder} is a link or a file: remove it")
    if os.name == "nt":
        return
    if not is_own(about):
        raise NotPrivateError(errno.EACCES, f"{folder} belongs to another user; remove it")
    if about.st_mode & OTHERS and (trusted or not about.st_mode & OTHERS_WRITE):
        with suppress(OSError):  # a cache may be read-only
            folder.chmod(PRIVATE_MODE)
    if folder.lstat().st_mode & OTHERS_WRITE:
        raise NotPrivateError(
            errno.EACCES,
            f"others can write to {folder}; if nobody did, run chmod -R go-w {cache()}",
        )
