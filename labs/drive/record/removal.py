"""Remove what this lab made, and nothing else.

Before a folder is emptied it is opened without following links, and everything below it is reached
through descriptors, so that no link leads out of it, whoever plants the link and whenever. The
folder must belong to this user and be the very one that its maker noted in a lock file (`Made`).
Only real folders on the mount of the folder that contains them are emptied: what is mounted in
between stays, and a link or a hard link loses its name only. Folders further below may have other
owners: a server that root starts creates some for the user it runs as.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FOLDER = (
    os.O_RDONLY
    | getattr(os, "O_DIRECTORY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
)
"""How a folder is opened that must not be a link."""
LINKED_FOLDER = FOLDER & ~getattr(os, "O_NOFOLLOW", 0)
"""How a folder is opened that the user named, perhaps by a link."""
BY_DESCRIPTOR = os.open in os.supports_dir_fd and os.scandir in os.supports_fd
"""Not on Windows, where links need a privilege and nothing here runs as another user."""


class Made(NamedTuple):
    """A folder that this lab made: its device and inode, which no other folder has meanwhile."""

    device: int
    inode: int

    @classmethod
    def of(cls, folder: Path | int) -> Made:
        """The folder at a path, or of a descriptor; OSError for a path that is a link."""
        about = os.fstat(folder) if isinstance(folder, int) else os.lstat(folder)
        if not stat.S_ISDIR(about.st_mode):
            raise NotADirectoryError(20, "not a folder", str(folder))
        return cls(about.st_dev, about.st_ino)


def remove_folder(folder: Path, made: Made) -> bool:
    """Remove a folder and all below it, as far as this lab may; whether it is gone.

    Nothing happens if the path is not the folder `made`, such as after a link took its name.
    """
    if not BY_DESCRIPTOR:
        return _remove_by_path(folder, made)
    with _opened(folder.parent) as above:
        return above is not None and _remove(above, folder.name, made)


def empty_folder(folder: Path, made: Made, keep: str) -> bool:
    """Remove what is in a folder but for the file `keep`; whether it is still the folder `made`."""
    with _opened(folder.parent) as above:
        return above is not None and _remove(above, folder.name, made, keep)


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int | None]:
    try:
        opened = os.open(folder, LINKED_FOLDER)
    except OSError:
        yield None
        return
    try:
        yield opened
    finally:
        os.close(opened)


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


def is_single_file(about: os.stat_result) -> bool:
    """Whether it is a regular file of this user with one name: writing to it changes no other."""
    return stat.S_ISREG(about.st_mode) and about.st_nlink == 1 and is_own(about)


def _remove(above: int, name: str, made: Made | None, keep: str = "") -> bool:
    """Remove the folder `name` in the folder that is open as `above`; whether it is gone. With
    `keep`, the folder and this file in it stay."""
    try:
        opened = os.open(name, FOLDER, dir_fd=above)
    except OSError:
        return False
    try:
        found = os.fstat(opened)
        if made is not None and not (is_own(found) and made == (found.st_dev, found.st_ino)):
            return False
        mount = _mount(opened)
        if (found.st_dev, mount) != (os.fstat(above).st_dev, _mount(above)) or mount == "":
            return False
        _empty(opened, keep)
        # Another folder may have taken the name meanwhile.
        named = os.stat(name, dir_fd=above, follow_symlinks=False)
        if os.path.samestat(found, named) and not keep:
            os.rmdir(name, dir_fd=above)
        return os.path.samestat(found, named)
    except (OSError, RecursionError):
        return False
    finally:
        os.close(opened)


def _empty(opened: int, keep: str) -> None:
    with os.scandir(opened) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        if is_folder:
            _remove(opened, name, None)
        elif name != keep:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=opened)


def _mount(opened: int) -> str | None:
    """The mount that an open folder is on, which st_dev does not tell for a bind mount; empty if
    Linux does not say, None on another system."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        with open(f"/proc/self/fdinfo/{opened}", encoding="ascii") as lines:
            return next((line.split()[1] for line in lines if line.startswith("mnt_id:")), "")
    except OSError:
        return ""


def _remove_by_path(folder: Path, made: Made) -> bool:
    import shutil  # noqa: PLC0415  a tenth of a second inside a virtual kernel

    try:
        if Made.of(folder) == made:
            shutil.rmtree(folder)
    except OSError:
        pass
    return not os.path.lexists(folder)


def say_removed(what: str) -> None:
    """Say in one line what an interrupted process had left and is removed now."""
    say(f"removed {what}, left by an interrupted process")


def say(line: str) -> None:
    """Print a line on standard error, in a notebook too, unless logging is configured otherwise."""
    import logging  # noqa: PLC0415  seldom, and slow to import inside a virtual kernel

    logging.getLogger("labs").warning("labs: %s", line)
