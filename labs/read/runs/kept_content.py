"""The content of recorded data, kept unpacked in the user's cache for the next process.

Recorded runs are thousands of small files, which take seconds to write. The folder of a content is
named after the digest of its packed file. A list beside it, which is written last, has the state of
each file and folder: content that was changed since is not used, but replaced.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from labs.drive.record.cache import NotPrivateError, clear_kept, private_folder, say_not_used
from labs.drive.record.disk import owned_folder
from labs.drive.record.removal import is_own_folder
from labs.drive.record.seal import digest
from labs.errors import Missing

SUMS = "SHA256SUMS"
"""The list of the files of a folder of recorded data; `labs runs record` writes it."""
CONTENT, LIST = "content", "files.json"
MAKING = ".making-"
NAME = re.compile(r"[0-9a-f]{64}")
_PACKAGE = Path(__file__).parents[2]
FOLDERS = (_PACKAGE.parent / "data", _PACKAGE / "recorded")
"""Where the recorded data of the package are: in a clone, and in an installed package."""


def kept_content(packed: Path, expand: Callable[[Path], None]) -> Path | None:
    """The folder with the content of a packed file of the recorded data of this package, which
    `expand` writes if it is not kept. None for another file, even if somebody else's list of
    checksums names it, and without a cache.

    Errors of `expand` that are no OSError pass through.
    """
    if packed.resolve().parent not in (folder.resolve() for folder in FOLDERS):
        return None
    try:
        name = digest(packed)
        if f"{name}  {packed.name}" not in (packed.parent / SUMS).read_text().splitlines():
            return None
        kept = private_folder("unpacked") / name
        if not _is_whole(kept):
            _make(kept, expand)
            if not _is_whole(kept):
                return None
        with suppress(OSError):  # a cache may be read-only
            os.utime(kept / LIST)  # in use: another process that clears old contents leaves it
        return kept / CONTENT
    except NotPrivateError as error:
        say_not_used(str(error.strerror))
    except (OSError, UnicodeDecodeError, Missing):
        pass
    return None


def _make(kept: Path, expand: Callable[[Path], None]) -> None:
    """Write a content, in place of one that was changed; another process may be faster."""
    with owned_folder(MAKING, kept.parent) as making:
        made = making / "made"
        made.mkdir()
        expand(made / CONTENT)
        states = dict(_states(made / CONTENT))
        (made / LIST).write_text(json.dumps({"files": states}), encoding="utf-8")
        if not _is_whole(kept):
            with suppress(FileNotFoundError):
                kept.rename(making / "changed")
            with suppress(OSError):  # the other process has given it the name meanwhile
                made.rename(kept)
    clear_kept(kept.parent, MAKING, NAME, LIST, "unpacked files of runs")


def _is_whole(kept: Path) -> bool:
    """Whether a content is there, is this user's, and is as it was when it was made."""
    try:
        listed = json.loads((kept / LIST).read_text(encoding="utf-8"))["files"]
        return is_own_folder(kept) and listed == dict(_states(kept / CONTENT))
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return False


def _states(content: Path) -> Iterator[tuple[str, list[int]]]:
    """What changes of each file and folder if it is changed or replaced, by its path."""
    waiting = [("", str(content))]
    while waiting:
        below, folder = waiting.pop()
        yield below, _state(os.lstat(folder))
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((f"{below}{entry.name}/", entry.path))
                else:
                    yield below + entry.name, _state(entry.stat(follow_symlinks=False))


def _state(about: os.stat_result) -> list[int]:
    # A change moves the ctime, which nobody can set.
    return [about.st_ino, about.st_mode, about.st_size, about.st_mtime_ns, about.st_ctime_ns]
