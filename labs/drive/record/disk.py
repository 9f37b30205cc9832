"""Where things are written, and how: the cache folder, whole files, folders that clean up.

What is unfinished belongs to a process: its path is locked with flock(2), which ends with the
process, also after kill -9. Whoever finds the lock of a path free knows that its owner is gone, and
may clear what the path stands for: a file that was not written to its end (`whole_file`), a
temporary folder (`owned_folder`), a run that was not sealed (`run_folder`), or what a journal names
(`testbed/namespaces`). A lock counts only if it is a regular file of this user with one name, and
only its user can open it. A folder is removed only if its lock names it (`removal`).

Between the creation of a lock file and locking it, another process may find it free; therefore both
sides check, once they have the lock, whether the path still names the file that they locked.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import itertools
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from labs.drive.record.removal import (
    BY_DESCRIPTOR,
    FOLDER,
    LINKED_FOLDER,
    Made,
    is_own_folder,
    is_single_file,
    remove_folder,
    say_removed,
)
from labs.errors import BadInput, Missing

LOCK = "lock"
LOCK_MODE = 0o600
"""Whoever can open a file can lock it, and so keep its user waiting."""
NOT_A_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
UNFINISHED = re.compile(r"\.new-.+-\d+-\d+", re.DOTALL)
RANDOM = re.compile(r"[0-9a-f]{12}")
NOTED = re.compile(r"([a-z]+) (\d+):(\d+)")
MOST_NOTED_BYTES = 4096
_numbers = itertools.count(1)
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


class OwnedPath:
    """A lock file that this process holds; a context manager that removes it and lets go.

    `folder` is the descriptor of its folder, if the path must not be followed through a link.
    """

    def __init__(self, path: Path, descriptor: int, folder: int | None = None) -> None:
        self.path, self.descriptor, self._folder = path, descriptor, folder

    @classmethod
    def take(cls, next_name: Callable[[], Path], folder: int | None = None) -> OwnedPath:
        """Create and lock the first path that `next_name` gives and that does not exist yet."""
        while True:
            path = next_name()
            with contextlib.suppress(FileExistsError):
                return cls(path, _create(path, folder), folder)

    @classmethod
    def of_a_dead_owner(cls, path: Path, folder: int | None = None) -> OwnedPath | None:
        """Lock what an owner that is gone left; None if it lives, or if the path is not ours."""
        try:
            descriptor = os.open(_at(path, folder), os.O_RDWR | NOT_A_LINK, dir_fd=folder)
        except OSError:
            return None
        if (
            is_single_file(os.fstat(descriptor))
            and _locked(descriptor, wait=False)
            and _names(path, descriptor, folder)
        ):
            return cls(path, descriptor, folder)
        os.close(descriptor)
        return None

    def note(self, **made: Made) -> None:
        """Write into the lock which folders its owner made; each replaces the one of its name."""
        lines = self.noted() | made
        text = "".join(f"{name} {one.device}:{one.inode}\n" for name, one in lines.items())
        os.lseek(self.descriptor, 0, os.SEEK_SET)
        os.write(self.descriptor, text.encode())
        os.ftruncate(self.descriptor, len(text))

    def noted(self) -> dict[str, Made]:
        """The folders that the owner of the lock made, as far as it lived to note them."""
        os.lseek(self.descriptor, 0, os.SEEK_SET)
        text = os.read(self.descriptor, MOST_NOTED_BYTES).decode("ascii", "replace")
        found = (NOTED.fullmatch(line) for line in text.splitlines())
        return {one[1]: Made(int(one[2]), int(one[3])) for one in found if one}

    def let_go(self) -> None:
        """Unlock the file and leave it."""
        os.close(self.descriptor)

    def release(self) -> None:
        """Remove the lock file, then let go: in the other order another could lock a dead file."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if _names(self.path, self.descriptor, self._folder):
                os.unlink(_at(self.path, self._folder), dir_fd=self._folder)
        self.let_go()

    def __enter__(self) -> OwnedPath:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def numbered(path: Path, prefix: str) -> Callable[[], Path]:
    """Names beside `path` that no other process of this machine uses: PREFIX-NAME-PID-N."""
    return lambda: path.with_name(f"{prefix}-{path.name}-{os.getpid()}-{next(_numbers)}")


def abandoned(paths: Iterable[Path]) -> Iterator[OwnedPath]:
    """Those of the lock files whose owner is gone, each held while its turn lasts."""
    for path in paths:
        owned = OwnedPath.of_a_dead_owner(path)
        if owned is not None:
            with owned:
                yield owned


@contextmanager
def whole_file(path: Path, *, through_link: bool = True) -> Iterator[BinaryIO]:
    """Open `path` for writing bytes; it has its name once the block ends without an error.

    It is written as `.new-NAME-PID-N`. A file of that name is replaced. Raises Missing if the disk
    is full, BadInput if the user may not write there, or if its folder is a link and `through_link`
    is off.
    """
    with written_to(path.parent, "name a file in another folder"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _opened(path.parent, through_link) as folder:
            clear_unfinished(path.parent, glob.escape(path.name), folder)
            with OwnedPath.take(numbered(path, ".new"), folder) as part:
                with os.fdopen(os.dup(part.descriptor), "wb") as file:
                    yield file
                    file.flush()
                    if hasattr(os, "fchmod"):
                        os.fchmod(part.descriptor, 0o644)
                    os.fsync(part.descriptor)
                os.rename(
                    *(_at(part.path, folder), _at(path, folder)),
                    src_dir_fd=folder,
                    dst_dir_fd=folder,
                )


def write_whole(path: Path, content: bytes, *, through_link: bool = True) -> None:
    """Write a small file whole."""
    with whole_file(path, through_link=through_link) as file:
        file.write(content)


def clear_unfinished(folder: Path, names: str, opened: int | None = None) -> None:
    """Clear what killed writers of files left in a folder; `names` is a pattern of their names.

    An unfinished file is its own lock: only its user can read it, unlike a finished one.
    """
    for path in folder.glob(f".new-{names}-*-*"):
        left = OwnedPath.of_a_dead_owner(path, opened) if UNFINISHED.fullmatch(path.name) else None
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
    owned = OwnedPath.take(lambda: _new_folder(prefix, where) / LOCK)
    made = Made.of(owned.path.parent)
    try:
        owned.note(folder=made)
        yield owned.path.parent
    finally:
        # The lock is a file of the folder: it stays locked until all of it is gone.
        remove_folder(owned.path.parent, made)
        owned.release()


def clear_folders(prefix: str, where: Path) -> None:
    """Remove the folders of a prefix whose owner is gone, that are this user's, and whose lock
    says that they were made here. One without a lock is removed if it is empty."""
    for folder in where.glob(prefix + "*"):
        if not RANDOM.fullmatch(folder.name.removeprefix(prefix)) or not is_own_folder(folder):
            continue
        lock = OwnedPath.of_a_dead_owner(folder / LOCK)
        if lock is None:
            with contextlib.suppress(OSError):
                folder.rmdir()  # its owner was killed before the lock was created
            continue
        made = lock.noted().get("folder")
        if made is not None and remove_folder(folder, made):
            say_removed(str(folder))
        if made is None and os.listdir(folder) == [LOCK]:
            lock.release()  # its owner was killed before anything was written
            with contextlib.suppress(OSError):
                folder.rmdir()
        else:
            lock.let_go()


@contextmanager
def _opened(folder: Path, through_link: bool) -> Iterator[int | None]:
    """The descriptor of a folder, by which names in it are reached; None where there is no such."""
    if not BY_DESCRIPTOR:
        yield None
        return
    opened = os.open(folder, LINKED_FOLDER if through_link else FOLDER)
    try:
        yield opened
    finally:
        os.close(opened)


def _at(path: Path, folder: int | None) -> Path | str:
    return path if folder is None else path.name


def _new_folder(prefix: str, where: Path) -> Path:
    """A folder of a random name. Until it is locked, another process may take it for a leftover
    and remove it: `_create` then finds no folder, and the next name is taken."""
    while True:
        folder = where / f"{prefix}{os.urandom(6).hex()}"
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            return folder


def _create(path: Path, folder: int | None = None) -> int:
    """Create and lock a file; FileExistsError if it exists, or if somebody was faster."""
    while True:
        try:
            descriptor = os.open(
                _at(path, folder), os.O_RDWR | os.O_CREAT | os.O_EXCL, LOCK_MODE, dir_fd=folder
            )
        except FileNotFoundError:
            if path.name == LOCK:
                raise FileExistsError from None  # the new folder was taken for a leftover
            raise
        try:
            if _locked(descriptor, wait=True) and _names(path, descriptor, folder):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _locked(descriptor: int, wait: bool) -> bool:
    try:
        import fcntl  # noqa: PLC0415  not on every system
    except ImportError:
        return wait  # what is held is never cleared there
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        if wait:
            raise
        return False
    return True


def _names(path: Path, descriptor: int, folder: int | None = None) -> bool:
    try:
        found = os.stat(_at(path, folder), dir_fd=folder, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return os.path.samestat(found, os.fstat(descriptor))
