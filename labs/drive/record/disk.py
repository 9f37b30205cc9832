"""Where things are written, and how: the cache folder, whole files, folders that clean up.

What is half-made belongs to a process: its path is locked with flock(2), which ends with the
process, also after kill -9. Whoever finds the lock of a path free knows that its owner is gone, and
may clear what the path stands for: a file that was not written to its end (`whole_file`), a
temporary folder (`owned_folder`), a run that was not sealed (`run_folder`), or what a journal names
(`testbed/journal`).

Between making a lock file and locking it, another process may find it free; therefore both sides
look, once they have the lock, whether the path still names the file that they locked.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import itertools
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from labs.errors import BadInput, Missing

LOCK = "lock"
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
    """A lock file that this process holds; a context manager that removes it and lets go."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self.descriptor = path, descriptor

    @classmethod
    def take(cls, next_name: Callable[[], Path]) -> OwnedPath:
        """Create and lock the first path that `next_name` gives and that does not exist yet."""
        while True:
            path = next_name()
            with contextlib.suppress(FileExistsError):
                return cls(path, _create(path))

    @classmethod
    def of_a_dead_owner(cls, path: Path) -> OwnedPath | None:
        """Lock what an owner that is gone left; None if it lives, or if the path is not ours."""
        try:
            # Never through a link: the folder may be one that others can write to.
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
        except OSError:
            return None
        if _locked(descriptor, wait=False) and _names(path, descriptor):
            return cls(path, descriptor)
        os.close(descriptor)
        return None

    def release(self) -> None:
        """Remove the lock file, then let go: in the other order another could lock a dead file."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            self.path.unlink()
        os.close(self.descriptor)

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
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open `path` for writing bytes; it has its name once the block ends without an error.

    It is written as `.new-NAME-PID-N`. A file of that name is replaced. Raises Missing if the disk
    is full, BadInput if the user may not write there.
    """
    with written_to(path.parent, "name a file in another folder"):
        path.parent.mkdir(parents=True, exist_ok=True)
        clear_unfinished(path.parent, glob.escape(path.name))
        with OwnedPath.take(numbered(path, ".new")) as part:
            with os.fdopen(os.dup(part.descriptor), "wb") as file:
                yield file
                file.flush()
                os.fchmod(part.descriptor, 0o644)
                os.fsync(part.descriptor)
            part.path.rename(path)


def write_whole(path: Path, content: bytes) -> None:
    """Write a small file whole."""
    with whole_file(path) as file:
        file.write(content)


def clear_unfinished(folder: Path, names: str) -> None:
    """Clear what killed writers of files left in a folder; `names` is a pattern of their names."""
    for _ in abandoned(folder.glob(f".new-{names}-*-*")):
        pass  # the lock file is the unfinished file itself


@contextmanager
def owned_folder(prefix: str, where: Path) -> Iterator[Path]:
    """A new folder in `where`, removed when the block ends; OSError if `where` cannot be written.

    Folders of the same prefix whose owner is gone, and that are this user's, are removed first.
    """
    clear_folders(prefix, where)
    owned = OwnedPath.take(lambda: _new_folder(prefix, where) / LOCK)
    try:
        yield owned.path.parent
    finally:
        # The lock is a file of the folder: it stays locked until all of it is gone.
        remove_folder(owned.path.parent)
        owned.release()


def clear_folders(prefix: str, where: Path) -> None:
    """Remove the folders of a prefix whose owner is gone and that are this user's."""
    for lock in abandoned(one / LOCK for one in where.glob(prefix + "*") if _is_ours(one)):
        remove_folder(lock.path.parent)


def remove_folder(folder: Path) -> None:
    """Remove a folder and all below it as far as possible; shutil, which does so too, takes a
    tenth of a second to import inside a virtual kernel."""
    for at, folders, files in os.walk(folder, topdown=False):
        links = [name for name in folders if os.path.islink(os.path.join(at, name))]
        for name in (*files, *links):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(at, name))
        with contextlib.suppress(OSError):
            os.rmdir(at)


def _new_folder(prefix: str, where: Path) -> Path:
    """A folder of a random name. Until it is locked, another process may take it for a leftover
    and remove it: `_create` then finds no folder, and the next name is taken."""
    while True:
        folder = where / f"{prefix}{os.urandom(6).hex()}"
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            return folder


def _create(path: Path) -> int:
    """Create and lock a file; FileExistsError if it exists, or if somebody was faster."""
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        except FileNotFoundError:
            if path.name == LOCK:
                raise FileExistsError from None  # the new folder was taken for a leftover
            raise
        try:
            if _locked(descriptor, wait=True) and _names(path, descriptor):
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


def _names(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except (FileNotFoundError, NotADirectoryError):
        return False


def _is_ours(folder: Path) -> bool:
    """Whether it is a folder, not a link to one, of this user: `where` may be open to others."""
    try:
        about = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(about.st_mode) and (
        not hasattr(os, "getuid") or about.st_uid == os.getuid()
    )
