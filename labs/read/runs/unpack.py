"""A packed file of runs, read as a RUNS folder.

It is unpacked into a folder of its own that is gone when the process ends; what a killed process
left is cleared by the next that unpacks. Only plain files with names inside the folder are taken.
"""

from __future__ import annotations

import atexit
import gzip
import lzma
import os
import shutil
import tarfile
import tempfile
import zlib
from contextlib import ExitStack
from functools import cache
from pathlib import Path, PurePosixPath
from typing import IO, cast

from labs.drive.record.disk import written_to
from labs.drive.record.owned_path import owned_folder
from labs.drive.record.run_folder import STUDIES
from labs.drive.record.seal import SEAL
from labs.errors import BadInput, Damaged

ENDINGS = (".tar.gz", ".tgz", ".tar.xz")
PREFIX = "labs-unpacked-"
HELD = ExitStack()
atexit.register(HELD.close)
CUT = (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, ValueError)


def is_packed(path: Path) -> bool:
    """Whether a path is a file with the ending of a packed one."""
    return path.name.endswith(ENDINGS) and path.is_file()


def unpacked(packed: Path) -> Path:
    """Return the RUNS folder in a packed file; it lives as long as this process.

    Raises Damaged if the file is cut short or holds anything but plain files, Missing if there is
    no room for what it holds.
    """
    found = packed.resolve().stat()
    return _unpacked(packed.resolve(), found.st_mtime_ns, found.st_size)


@cache
def _unpacked(packed: Path, mtime_ns: int, size: int) -> Path:
    folder = HELD.enter_context(owned_folder(PREFIX, Path(tempfile.gettempdir())))
    content = folder / "content"
    content.mkdir()
    try:
        with written_to(folder, "set TMPDIR to a folder with room"), _expanded(packed) as stream:
            with tarfile.open(fileobj=stream, mode="r|") as parcel:
                for member in parcel:
                    _take(parcel, member, content)
            while stream.read(1 << 20):
                pass  # the check sum of a compressed file comes last
    except CUT as error:
        raise Damaged(
            f"{packed} cannot be unpacked: it was cut short or is no packed file; copy "
            "or pack it again"
        ) from error
    return _runs_in(content, packed)


def _expanded(packed: Path) -> IO[bytes]:
    if not os.access(packed, os.R_OK):
        raise BadInput(f"{packed} cannot be read; ask its owner for the right to")
    opener = lzma.open if packed.name.endswith(".xz") else gzip.open
    return cast(IO[bytes], opener(packed))


def _take(parcel: tarfile.TarFile, member: tarfile.TarInfo, content: Path) -> None:
    """Write one member. `filter="data"` would do, but Python 3.11 has it only from 3.11.4 on."""
    inside = PurePosixPath(member.name)
    if member.isdir() and ".." not in inside.parts and not inside.is_absolute():
        return
    file = parcel.extractfile(member) if member.isreg() else None
    if file is None or inside.is_absolute() or ".." in inside.parts or not inside.parts:
        raise Damaged(
            f"the packed file holds {member.name!r}, which is no plain file inside a "
            "folder; nothing of it is used"
        )
    path = content / inside
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        out = path.open("xb")
    except (FileExistsError, NotADirectoryError) as error:
        raise Damaged(f"the packed file holds {member.name!r} twice; pack it again") from error
    with out:
        shutil.copyfileobj(file, out)


def _runs_in(content: Path, packed: Path) -> Path:
    """The folder that holds the runs: the top one, or below it where it holds one folder only."""
    folder = content
    while True:
        entries = list(folder.iterdir())
        if (folder / STUDIES).is_dir() or any((entry / SEAL).is_file() for entry in entries):
            return folder
        if len(entries) != 1 or not entries[0].is_dir():
            raise BadInput(f"{packed} holds no run; `labs runs pack` packs runs")
        folder = entries[0]
