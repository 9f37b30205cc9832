"""A folder of runs as one file, and such a file read as a folder.

What is packed has the same bytes wherever and whenever it is packed: the file holds a RUNS folder,
which is the run folders, and studies/ where studies were packed. Names are sorted; times, owners
and modes are fixed. host.json, which tells of the machine, is left out unless it is asked for; the
seal holds without it.

A packed file is unpacked into a folder of its own that is gone when the process ends; what a killed
process left is cleared by the next that unpacks. Only plain files with names inside the folder are
taken.
"""

from __future__ import annotations

import atexit
import gzip
import io
import lzma
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import IO, cast

from labs.drive.record.disk import owned_folder, whole_file, written_to
from labs.drive.record.run_folder import STUDIES
from labs.drive.record.seal import HOST, RUN, SEAL, digest, pretty, verify
from labs.drive.record.study_file import StudyFile
from labs.drive.units import MIB
from labs.errors import BadInput, Damaged
from labs.read.runs.schemas import open_study

ENDINGS = (".tar.gz", ".tgz", ".tar.xz")
PREFIX = "labs-unpacked-"
HELD = ExitStack()
atexit.register(HELD.close)
CUT = (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, ValueError)
# What a packed file holds: the name inside -> where its content is, or the content.
Contents = Mapping[str, Path | bytes]


@dataclass(frozen=True)
class Packed:
    """A file of runs: `path`, `size_bytes`, `sha256`, and how many `runs` it holds."""

    path: Path
    size_bytes: int
    sha256: str
    runs: int

    def as_json(self) -> dict[str, object]:
        return {
            "path": str(self.path),
            "size_bytes": self.size_bytes,
            "sha256": self.sha256,
            "runs": self.runs,
        }


def pack(what: str | Path, out: str | Path, *, with_host: bool = False) -> Packed:
    """Pack a run folder, a study file with its runs, or a whole RUNS folder into `out`.

    `out` ends in .tar.gz or .tar.xz and is replaced once the new file is whole. Every run is
    verified first: BadInput for what holds no run or a study that is not finished, Damaged for a
    run that was changed.
    """
    out = Path(out)
    if not out.name.endswith(ENDINGS):
        raise BadInput(f"{out} does not end in {', '.join(ENDINGS)}; name the packed file so")
    found = contents(Path(what), with_host=with_host)
    folders = {path.parent.resolve() for path in found.values() if isinstance(path, Path)}
    if out.resolve().parent in folders:
        raise BadInput(f"{out} lies inside a run; name a file outside of the folders of runs")
    with whole_file(out) as file, _compressed(file, out) as stream:
        _write(found, stream)
    return Packed(out, out.stat().st_size, digest(out), count_runs(found))


def contents(what: Path, *, with_host: bool = False) -> Contents:
    """Return what would be packed of a run, a study file or a RUNS folder, verified."""
    if is_packed(what):
        raise BadInput(f"{what} is packed already; copy it as it is")
    if what.is_file():
        return _of_study(open_study(what), with_host)
    if what.is_dir() and is_run(what):
        return _of_run(what, with_host)
    folder = runs_folder(what)
    found: dict[str, Path | bytes] = {}
    for path in study_files(folder):
        open_study(path)
        found[f"{STUDIES}/{path.name}"] = path
    for run in run_folders(folder):
        found |= _of_run(run, with_host)
    if not found:
        raise BadInput(
            f"{what} holds no runs; name a run, a study file or a folder given to --into"
        )
    return found


def count_runs(found: Contents) -> int:
    """How many runs a packed file with these contents holds."""
    return sum(name.endswith(f"/{SEAL}") for name in found)


def _of_study(study: StudyFile, with_host: bool) -> Contents:
    content = pretty(study.as_json())
    found: dict[str, Path | bytes] = {
        f"{STUDIES}/{study.name}.json": content,
        f"{STUDIES}/{study.lab}.json": content,
    }
    for folder in study.folders():
        if not is_run(folder):
            raise BadInput(
                f"the study {study.name} is not finished: {folder.name} is not made "
                "yet; `labs run` with its parameters goes on with it"
            )
        found |= _of_run(folder, with_host)
    return found


def _of_run(folder: Path, with_host: bool) -> Contents:
    names = [*verify(folder).files, SEAL]
    if with_host and (folder / HOST).is_file():
        names.append(HOST)
    name = folder.resolve().name  # the folder may be named as "."
    return {f"{name}/{inside}": folder / inside for inside in names}


@contextmanager
def _compressed(file: IO[bytes], out: Path) -> Iterator[IO[bytes]]:
    if out.name.endswith(".xz"):
        with lzma.open(file, "wb") as stream:
            yield cast(IO[bytes], stream)
    else:
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as zipped:
            yield cast(IO[bytes], zipped)


def _write(found: Contents, stream: IO[bytes]) -> None:
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as parcel:
        for name, content in sorted(found.items()):
            member = tarfile.TarInfo(name)  # mode 0644, no owner, no time
            if isinstance(content, bytes):
                member.size = len(content)
                parcel.addfile(member, io.BytesIO(content))
                continue
            member.size = content.stat().st_size
            with content.open("rb") as source:
                parcel.addfile(member, source)


def runs_folder(folder: str | Path) -> Path:
    """Return the RUNS folder that is meant: a folder itself, or what is in a packed file."""
    path = Path(folder)
    if is_packed(path):
        return unpacked(path)
    if path.is_dir() and os.access(path, os.R_OK | os.X_OK):
        return path
    raise BadInput(
        f"{folder} is no folder of runs that can be read; name the folder that was "
        "given to --into, or a packed file"
    )


def run_folders(runs: Path) -> list[Path]:
    """Return the run folders in a RUNS folder, by name, without opening them."""
    return sorted(
        entry for entry in runs.iterdir() if not entry.name.startswith(".") and is_run(entry)
    )


def study_files(runs: Path) -> list[Path]:
    """Return the study files of a RUNS folder, under their names and as the newest of a lab."""
    return sorted(path for path in (runs / STUDIES).glob("*.json") if not path.name.startswith("."))


def is_run(folder: Path) -> bool:
    """Whether a folder is a run, whole or damaged."""
    return (folder / RUN).is_file() or (folder / SEAL).is_file()


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
            while stream.read(MIB):
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
