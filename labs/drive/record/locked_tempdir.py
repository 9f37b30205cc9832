"""A temporary folder that its owner holds: the next one clears what a killed owner left."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from labs.drive.record.flock import hold, release, seize

LOCK = "lock"


@contextlib.contextmanager
def held_folder(prefix: str, where: Path) -> Iterator[Path]:
    """A new folder in `where`, gone when the block ends; OSError if `where` cannot be written.

    Folders of the same prefix whose owner is gone, and that are this user's, are removed first.
    """
    clear_stale(prefix, where)
    folder, lock = _take(prefix, where)
    try:
        yield folder
    finally:
        # The lock is a file of the folder: it stays locked until all of it is gone.
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _take(prefix: str, where: Path) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=where))
        # Until it is locked, somebody else may take the folder for a leftover.
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            return folder, hold(folder / LOCK)


def clear_stale(prefix: str, where: Path) -> None:
    """Remove the folders of a prefix whose owner is gone and that are this user's."""
    for folder in where.glob(prefix + "*"):
        if not _is_ours(folder):
            continue
        lock = seize(folder / LOCK)
        if lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
            release(folder / LOCK, lock)


def _is_ours(folder: Path) -> bool:
    """Whether it is a folder, no link to one, of this user: `where` may be open to others."""
    try:
        about = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(about.st_mode) and (
        not hasattr(os, "getuid") or about.st_uid == os.getuid()
    )
