"""What a packed file may hold, tar or zip: plain files with names inside the folder, within limits
on number, length, size and compression. Packing respects them, too."""

from __future__ import annotations

import os
import re
import shutil
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from labs.drive.record.seal import MOST_FILE_BYTES
from labs.errors import Damaged

# The recorded runs of the project: 2,633 members, 50 MB, 20 times as large as packed.
MOST_MEMBERS = 100_000
MOST_UNPACKED_BYTES = 16 << 30
MOST_TIMES_LARGER, ALWAYS_ALLOWED_BYTES = 500, 64 << 20
PADDING = re.compile(rb"\0{16,}")
"""Zeros between the streams of a file: without content, they do not raise the limit."""
MOST_PATH_BYTES, MOST_NAME_BYTES, MOST_FOLDERS = 1000, 255, 16


def allowed_bytes(packed: Path) -> int:
    """How large the content of a packed file may be, in all of its stages together."""
    with packed.open("rb") as file:
        size = sum(len(PADDING.sub(b"", chunk)) for chunk in iter(partial(file.read, 1 << 20), b""))
    return min(MOST_UNPACKED_BYTES, ALWAYS_ALLOWED_BYTES + MOST_TIMES_LARGER * size)


def is_inside(path: PurePosixPath) -> bool:
    """Whether a path leads into a folder, and is short and plain enough for every file system:
    Windows would take `C:` and backslashes for other folders."""
    names = [os.fsencode(name) for name in path.parts]
    return (
        not path.is_absolute()
        and str(path).isprintable()
        and {":", "\\"}.isdisjoint(str(path))
        and ".." not in path.parts
        and len(names) <= MOST_FOLDERS
        and sum(map(len, names)) <= MOST_PATH_BYTES
        and all(len(name) <= MOST_NAME_BYTES for name in names)
    )


def write_member(content: Path, name: str, file: IO[bytes]) -> None:
    """Write a member below the folder `content`; Damaged if it has been written before."""
    path = os.path.join(content, name)
    try:
        try:
            out = _create(path)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            out = _create(path)
    except (FileExistsError, NotADirectoryError) as error:
        raise Damaged(f"the packed file contains {name!r} twice. Pack it again") from error
    with out:
        shutil.copyfileobj(file, out)


def _create(path: str) -> IO[bytes]:
    return open(path, "xb")


def refused(name: str) -> Damaged:
    """The error for a member that is not a plain file inside the folder."""
    shown = name if len(name) <= 80 else f"{name[:77]}..."
    return Damaged(
        f"the packed file holds {shown!r}. Allowed: regular files with short names inside one "
        "folder. Nothing of it is used; pack the runs again with `labs runs pack`"
    )


def too_large(packed: Path) -> Damaged:
    """The error for a packed file that exceeds a limit."""
    return Damaged(
        f"{packed} exceeds the limits of packed files. Allowed: {MOST_MEMBERS} files, "
        f"{MOST_FILE_BYTES >> 30} GiB each, {MOST_UNPACKED_BYTES >> 30} GiB together, and "
        f"{MOST_TIMES_LARGER} times the size of the outermost file. Nothing of it is used. If you "
        "trust its source, unpack it with tar or unzip and name the folder"
    )
