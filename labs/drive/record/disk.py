"""Where things are written: the cache folder, and in one line why a disk does not take them."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from labs.errors import BadInput, Missing

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
