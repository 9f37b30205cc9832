"""What a disk answers, said in one line."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from labs.errors import BadInput, Missing

NO_ROOM = {errno.ENOSPC, errno.EDQUOT}
NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP}
NOT_THERE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG}


@contextmanager
def written_to(folder: Path) -> Iterator[None]:
    """Turn an OSError of writing below `folder` into Missing (no room) or BadInput (no right)."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            raise Missing(f"no room is left on the disk of {folder}; free some, or write to "
                          "another folder with --into DIR") from error
        if error.errno in NO_LOCKS:
            raise Missing(f"the file system of {folder} has no file locks; write to a folder on "
                          "a local disk with --into DIR") from error
        if error.errno in NOT_THERE:
            raise BadInput(f"{folder} cannot be written ({error.strerror}); name a folder of "
                           "yours with --into DIR") from error
        raise
