"""Who owns what is half-made: a lock file that the kernel releases when its owner dies.

A lock with flock(2) ends with its process, also after kill -9, so whoever finds the lock free
knows that the owner is gone and may clear what was left. Between making a lock file and locking
it somebody else may find it free; therefore both sides look, once locked, whether the path still
names the file that they locked.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def hold(path: Path) -> int:
    """Make the lock file `path`, lock it, return its descriptor; FileExistsError if it is there."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            if _locked(descriptor, wait=True) and _names(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def seize(path: Path) -> int | None:
    """Lock what an owner that is gone left behind; None while it lives, or if it is not ours."""
    try:
        # Never through a link: the folder may be one that others can write to.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
    except OSError:
        return None
    if _locked(descriptor, wait=False) and _names(path, descriptor):
        return descriptor
    os.close(descriptor)
    return None


def release(path: Path, descriptor: int) -> None:
    """Take the lock file away, then let go: in the other order another could lock a dead file."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    os.close(descriptor)


def _locked(descriptor: int, wait: bool) -> bool:
    try:
        import fcntl
    except ImportError:
        return wait  # where files have no such locks (Windows), what is held is never seized
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        if wait:
            raise
        return False
    return True


def _names(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
