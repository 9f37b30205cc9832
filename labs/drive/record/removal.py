"""Remove what this lab made, and nothing else.

A folder is removed if it belongs to this user, is the very one that its maker noted in a lock
(`Made`), and has nothing mounted in it. Python's own removal follows no link, so a link or a hard
link loses its name only. Folders further below may have other owners: a server that root starts
creates some for the user it runs as.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import stat
import sys
from pathlib import Path
from typing import NamedTuple

OTHERS_WRITE = 0o022
MOUNTS = Path("/proc/self/mountinfo")
ESCAPED = re.compile(rb"\\([0-7]{3})")


class Made(NamedTuple):
    """A folder that this lab made: its device and inode, which no other folder has meanwhile."""

    device: int
    inode: int

    @classmethod
    def of(cls, folder: Path) -> Made:
        """The folder at a path; OSError if there is none, or if it is a link."""
        about = folder.lstat()
        if not stat.S_ISDIR(about.st_mode):
            raise NotADirectoryError(20, "not a folder", str(folder))
        return cls(about.st_dev, about.st_ino)


def is_made(folder: Path, made: Made) -> bool:
    """Whether a path is a folder of this user, and the one that was made."""
    with contextlib.suppress(OSError):
        return is_own_folder(folder) and Made.of(folder) == made
    return False


def remove_folder(folder: Path, made: Made) -> bool:
    """Remove a folder and all below it, as far as this lab may; whether it is gone.

    Nothing happens if the path is not the folder `made`, such as after a link took its name.
    """
    if not empty_folder(folder, made):
        return False
    with contextlib.suppress(OSError):
        folder.rmdir()
    return not os.path.lexists(folder)


def empty_folder(folder: Path, made: Made, keep: str = "") -> bool:
    """Remove what is in a folder but for the file `keep`; whether it is the folder `made`."""
    if not is_made(folder, made) or _has_mounts(folder):
        return False
    for entry in list(os.scandir(folder)):
        if entry.is_dir(follow_symlinks=False):
            with contextlib.suppress(RecursionError):
                shutil.rmtree(entry.path, ignore_errors=True)
        elif entry.name != keep:
            with contextlib.suppress(OSError):
                os.unlink(entry.path)
    return True


def _has_mounts(folder: Path) -> bool:
    """Whether something is mounted at a folder or below it, or Linux does not say."""
    if not sys.platform.startswith("linux"):
        return False
    at = os.fsencode(os.path.realpath(folder))
    try:
        points = [line.split()[4] for line in MOUNTS.read_bytes().splitlines()]
    except OSError:
        return True
    plain = (ESCAPED.sub(lambda code: bytes([int(code[1], 8)]), point) for point in points)
    return any(point == at or point.startswith(at + b"/") for point in plain)


def is_own_folder(folder: Path) -> bool:
    """Whether a path is a real folder, not a link to one, of this user."""
    try:
        about = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(about.st_mode) and is_own(about)


def is_own(about: os.stat_result) -> bool:
    """Whether a file or folder belongs to this user."""
    return not hasattr(os, "geteuid") or about.st_uid == os.geteuid()


def is_private_file(about: os.stat_result) -> bool:
    """Whether it is a regular file of this user with one name, to which nobody else can write."""
    is_single = stat.S_ISREG(about.st_mode) and about.st_nlink == 1 and is_own(about)
    return is_single and (os.name == "nt" or not about.st_mode & OTHERS_WRITE)


def say_removed(what: str) -> None:
    """Say in one line what an interrupted process had left and is removed now."""
    say(f"removed {what}, left by an interrupted process")


def say(line: str) -> None:
    """Print a line on standard error, in a notebook too, unless logging is configured otherwise."""
    logging.getLogger("labs").warning("labs: %s", line)
