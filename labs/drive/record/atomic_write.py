"""A file that appears whole or not at all.

It is written beside its final name as `.new-NAME-PID-N`, locked by its writer, and renamed. What
a killed writer left is cleared by the next that writes a file of that name there.
"""

from __future__ import annotations

import contextlib
import glob
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from labs.drive.record.disk import written_to
from labs.drive.record.flock import hold, release, seize

_numbers = itertools.count(1)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open `path` for writing bytes; it has its name once the block ends without an error.

    A file of that name is replaced. Raises Missing for no room, BadInput for no right to write.
    """
    with written_to(path.parent, "name a file in another folder"):
        path.parent.mkdir(parents=True, exist_ok=True)
        clear_unfinished(path.parent, glob.escape(path.name))
        part, lock = _take(path)
        try:
            with os.fdopen(os.dup(lock), "wb") as file:
                yield file
                file.flush()
                os.fchmod(lock, 0o644)
                os.fsync(lock)
            part.rename(path)
        finally:
            release(part, lock)


def write_whole(path: Path, content: bytes) -> None:
    """Write a small file whole."""
    with whole_file(path) as file:
        file.write(content)


def clear_unfinished(folder: Path, names: str) -> None:
    """Clear what killed writers of files left in a folder; `names` is a pattern of their names."""
    for part in folder.glob(f".new-{names}-*-*"):
        lock = seize(part)
        if lock is not None:
            release(part, lock)


def _take(path: Path) -> tuple[Path, int]:
    while True:
        part = path.with_name(f".new-{path.name}-{os.getpid()}-{next(_numbers)}")
        with contextlib.suppress(FileExistsError):
            return part, hold(part)
