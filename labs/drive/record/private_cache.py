"""Folders of the user's cache that nobody else can write to or read.

Files there are executed, or shown as results, so a folder that belongs to another user, or that
others can write to, is not used: `NotPrivateError` says so in one line. A folder that others can
only read, as earlier versions created it, is closed to them. Folders and files are opened through
descriptors, so that none can be replaced between its check and its use.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

from labs.drive.record import disk
from labs.drive.record.removal import BY_DESCRIPTOR, FOLDER, is_own, is_single_file, say

PRIVATE_MODE, PRIVATE_FILE_MODE = 0o700, 0o600
OTHERS_WRITE, OTHERS = 0o022, 0o077


class NotPrivateError(PermissionError):
    """A folder of the cache that belongs to another user or others may write to, or a link."""


def private_folder(kind: str, *, make: bool = True) -> Path:
    """A folder in the cache, created if it does not exist, unless `make` is false.

    NotPrivateError if it is not this user's alone, another OSError if it cannot be made or opened,
    Missing for a user without a home.
    """
    with _opened(kind, make):
        return disk.cache() / kind


def opened_file(kind: str, name: str, flags: int) -> int:
    """The descriptor of a file in a folder of the cache, opened with these flags of os.open.

    Errors are those of `private_folder`; another OSError for a link, a file of another user, one
    with several names, and one that others may write to.
    """
    with _opened(kind, make=bool(flags & os.O_CREAT)) as folder:
        where = disk.cache() / kind / name if folder is None else name
        flags |= disk.NOT_A_LINK | getattr(os, "O_BINARY", 0)  # Windows would write \r\n for \n
        descriptor = os.open(where, flags, PRIVATE_FILE_MODE, dir_fd=folder)
    about = os.fstat(descriptor)
    if is_single_file(about) and not (BY_DESCRIPTOR and about.st_mode & OTHERS_WRITE):
        return descriptor
    os.close(descriptor)
    raise PermissionError(errno.EACCES, f"{name} is not a file that only this user can write")


@cache
def say_not_used(reason: str) -> None:
    """Say once in one line why nothing is kept."""
    say(f"the cache is not used: {reason}, or name another folder in XDG_CACHE_HOME")


@contextmanager
def _opened(kind: str, make: bool) -> Iterator[int | None]:
    """The descriptor of a folder of the cache; None where folders have none."""
    root = disk.cache()
    if make:
        root.parent.mkdir(PRIVATE_MODE, parents=True, exist_ok=True)
    with ExitStack() as stack:
        above = None
        for folder in (root, root / kind):
            if make:
                with suppress(FileExistsError):
                    os.mkdir(_at(folder, above), PRIVATE_MODE, dir_fd=above)
            if BY_DESCRIPTOR:
                above = _open(folder, above)
                stack.callback(os.close, above)
                _close_to_others(folder, above, trusted=folder == root)
        yield above


def _open(folder: Path, above: int | None) -> int:
    try:
        return os.open(_at(folder, above), FOLDER, dir_fd=above)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        raise NotPrivateError(errno.EACCES, f"{folder} is a link or a file: remove it") from None


def _at(folder: Path, above: int | None) -> Path | str:
    return folder if above is None else folder.name


def _close_to_others(folder: Path, descriptor: int, *, trusted: bool) -> None:
    """Close a folder to other users. A folder that they could write to is used only if it is
    `trusted`: the cache itself contains only folders, which are checked one by one."""
    before = os.fstat(descriptor)
    if not is_own(before):
        raise NotPrivateError(errno.EACCES, f"{folder} belongs to another user; remove it")
    if before.st_mode & OTHERS and (trusted or not before.st_mode & OTHERS_WRITE):
        with suppress(OSError):  # a cache may be read-only
            os.fchmod(descriptor, PRIVATE_MODE)
    if os.fstat(descriptor).st_mode & OTHERS_WRITE:
        raise NotPrivateError(
            errno.EACCES,
            f"others can write to {folder}; if nobody did, run chmod -R go-w {disk.cache()}",
        )
