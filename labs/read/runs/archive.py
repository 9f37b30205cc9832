"""A folder of runs as one file, and such a file read as a folder.

The same content always gives the same bytes: the file contains a RUNS folder, that is, the run
folders, and studies/ if studies were packed. Names are sorted; times, owners and modes are fixed.
host.json, which describes the machine, is omitted unless requested; the seal does not cover it.

A file of recorded data is unpacked once, into the user's cache (`kept_content`). Any other is
unpacked into a folder that is removed when the process ends, also by SIGTERM or SIGHUP; what a
killed process left is removed by the next one that unpacks. It may come from an untrusted source:
`packed_limits` says what it may hold. Zip files are read as well: a bundle, which holds its runs
packed, or a folder of runs that was zipped.
"""

from __future__ import annotations

import atexit
import gzip
import io
import lzma
import os
import re
import signal
import sys
import tarfile
import tempfile
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import IO, cast

from labs.drive.record.disk import owned_folder, whole_file, written_to
from labs.drive.record.run_folder import STUDIES
from labs.drive.record.seal import HOST, MOST_FILE_BYTES, RUN, SEAL, digest, pretty, verify
from labs.drive.record.stored_files import read_json
from labs.drive.record.study_file import StudyFile
from labs.errors import BadInput, Damaged
from labs.read.runs import packed_limits as limits
from labs.read.runs.kept_content import kept_content
from labs.read.runs.schemas import open_study
from labs.read.runs.zip_file import ENDING as ZIP
from labs.read.runs.zip_file import unzip

PACKS = (".tar.gz", ".tgz", ".tar.xz")
"""The endings of the files that are written here."""
ENDINGS = (*PACKS, ZIP)
"""The endings of the files that are read: those, and bundles or other zip files with runs."""
BUNDLED = "runs.tar.xz"
"""The packed file with the runs of a bundle."""
AUDIT = "audit"
"""The entry of host.json with what the machines of a run in real time were set to."""
PREFIX = "labs-unpacked-"
_origins: dict[Path, Path] = {}
"""The packed files that were unpacked, by the folder of their content."""
HELD = ExitStack()
atexit.register(HELD.close)
RUN_FOLDER = re.compile(r"-[0-9a-f]{12}$")
# What the readers of compressed and tar files raise for other content.
CUT = (
    tarfile.TarError,
    EOFError,
    gzip.BadGzipFile,
    zlib.error,
    lzma.LZMAError,
    ValueError,
    OverflowError,
    RecursionError,
)
MOST_HEADER_BYTES = 64 << 10
"""Of a tar header that holds a long name or other attributes."""
XZ_MEMORY_BYTES = 256 << 20
# A dictionary larger than a run: runs of a study resemble each other. It takes 10 % off its file.
XZ_FILTERS = ({"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 4, "dict_size": 32 << 20},)
CHUNK_BYTES = 1 << 16
HEADERS = frozenset(
    (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
)
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


def pack(
    what: str | Path, out: str | Path, *, with_host: bool = False, gzip_level: int = 9
) -> Packed:
    """Pack a run folder, a study file with its runs, or a whole RUNS folder into `out`.

    `out` ends in .tar.gz or .tar.xz and is replaced once the new file is whole. Every run is
    verified first: BadInput for a path without runs or an incomplete study, Damaged for a
    run that was changed. Level 1 of gzip is fast, for a file that is only sent.
    """
    out = Path(out)
    if not out.name.endswith(PACKS):
        raise BadInput(f"{out}: the name of a packed file must end in {' or '.join(PACKS)}")
    return pack_contents(contents(Path(what), with_host=with_host), out, gzip_level)


def pack_contents(members: Contents, out: Path, gzip_level: int = 9) -> Packed:
    """Pack what `contents` returned, of one folder or of several, into `out`."""
    folders = {path.parent.resolve() for path in members.values() if isinstance(path, Path)}
    if out.resolve().parent in folders:
        raise BadInput(f"{out} is inside a run. Name a file outside the run folders")
    _check_limits(members)
    with whole_file(out) as file, _compressed(file, out, gzip_level) as stream:
        _write(members, stream)
    return Packed(out, out.stat().st_size, digest(out), count_runs(members))


def _check_limits(members: Contents) -> None:
    """BadInput for what could not be unpacked again."""
    for name in members:
        if not limits.is_inside(PurePosixPath(name)):
            raise BadInput(
                f"{name!r} cannot be packed. Allowed: short names without : and \\. Rename it"
            )
    sizes = [
        len(content) if isinstance(content, bytes) else content.stat().st_size
        for content in members.values()
    ]
    if (
        len(sizes) > limits.MOST_MEMBERS
        or max(sizes) > MOST_FILE_BYTES
        or sum(sizes) > limits.MOST_UNPACKED_BYTES
    ):
        raise BadInput(
            f"{len(sizes)} files of {sum(sizes)} bytes, the largest of {max(sizes)}, are too much "
            f"for one packed file. Allowed: {limits.MOST_MEMBERS} files, {MOST_FILE_BYTES >> 30} "
            f"GiB each, {limits.MOST_UNPACKED_BYTES >> 30} GiB together. Pack fewer runs"
        )


def contents(what: Path, *, with_host: bool = False) -> Contents:
    """Return what would be packed of a run, a study file or a RUNS folder, verified."""
    if is_packed(what):
        raise BadInput(f"{what} is already packed. Copy the file")
    if what.is_file():
        return _of_study(open_study(what), with_host)
    if what.is_dir() and is_run(what):
        return _of_run(what, with_host)
    folder = runs_folder(what)
    members: dict[str, Path | bytes] = {}
    for path in study_files(folder):
        open_study(path)
        members[f"{STUDIES}/{path.name}"] = path
    for run in run_folders(folder):
        members |= _of_run(run, with_host)
    if not members:
        raise BadInput(
            f"{what} contains no runs. Name a run, a study file or a folder given to --into"
        )
    return members


def count_runs(members: Contents) -> int:
    """The number of runs in a packed file with these contents."""
    return sum(name.endswith(f"/{SEAL}") for name in members)


def _of_study(study: StudyFile, with_host: bool) -> Contents:
    content = pretty(study.as_json())
    members: dict[str, Path | bytes] = {
        f"{STUDIES}/{study.name}.json": content,
        f"{STUDIES}/{study.lab}.json": content,
    }
    for folder in study.folders():
        if not is_run(folder):
            raise BadInput(
                f"the study {study.name} is not complete: {folder.name} is missing. "
                "`labs run` with its parameters resumes it"
            )
        members |= _of_run(folder, with_host)
    return members


def _of_run(folder: Path, with_host: bool) -> Contents:
    """The files of a run. Without host.json its audit is kept: what the machines were set to."""
    names = [*verify(folder).files, SEAL]
    there = (folder / HOST).is_file()
    if with_host and there:
        names.append(HOST)
    name = folder.resolve().name  # the folder may be named as "."
    members: dict[str, Path | bytes] = {f"{name}/{inside}": folder / inside for inside in names}
    if there and not with_host and (audit := audit_in(folder)) is not None:
        members[f"{name}/{HOST}"] = pretty({AUDIT: audit})
    return members


def audit_in(folder: Path) -> object:
    """What host.json of a run holds about the settings of its machines; None if nothing."""
    try:
        return read_json(folder / HOST).get(AUDIT)
    except Damaged:  # a run that was packed before there were audits has no such file
        return None


@contextmanager
def _compressed(file: IO[bytes], out: Path, gzip_level: int) -> Iterator[IO[bytes]]:
    if out.name.endswith(".xz"):
        with lzma.open(file, "wb", filters=XZ_FILTERS) as stream:
            yield cast(IO[bytes], stream)
    else:
        with gzip.GzipFile("", "wb", gzip_level, fileobj=file, mtime=0) as zipped:
            yield cast(IO[bytes], zipped)


def _write(members: Contents, stream: IO[bytes]) -> None:
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as parcel:
        for name, content in sorted(members.items()):
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
        f'cannot read "{folder}": not a folder of runs. Name a folder given to --into, or a packed '
        "file"
    )


def run_folders(runs: Path) -> list[Path]:
    """Return the run folders in a RUNS folder, by name, without opening them."""
    return sorted(
        entry for entry in runs.iterdir() if not entry.name.startswith(".") and is_run(entry)
    )


def study_files(runs: Path) -> list[Path]:
    """Return the study files of a RUNS folder, under their names and as the newest of a lab."""
    return sorted(path for path in (runs / STUDIES).glob("*.json") if not path.name.startswith("."))


def foreign_entry(runs: Path) -> str | None:
    """The name of an entry of a RUNS folder that is neither a run nor a study, if there is one."""
    expected = {*run_folders(runs), *study_files(runs)}
    entries = [entry for entry in runs.iterdir() if entry.name != STUDIES or not entry.is_dir()]
    if (runs / STUDIES).is_dir():
        entries += (runs / STUDIES).iterdir()
    return next(
        (entry.relative_to(runs).as_posix() for entry in sorted(entries) if entry not in expected),
        None,
    )


def is_run(folder: Path) -> bool:
    """Whether a folder is a run, whole or damaged: it has a run.json or a seal, of any kind.

    A folder that must not be looked into is one if it has the name of a run.
    """
    try:
        return not {RUN, SEAL}.isdisjoint(os.listdir(folder))
    except PermissionError:
        return RUN_FOLDER.search(folder.name) is not None
    except OSError:
        return False


def is_packed(path: Path) -> bool:
    """Whether a path is a file with the ending of a packed one."""
    return path.name.endswith(ENDINGS) and path.is_file()


def unpacked(packed: Path) -> Path:
    """Return the RUNS folder in a packed file; it is only to be read, and by this process.

    Raises Damaged if the file is truncated, contains anything but plain files, or exceeds a limit
    of this module; Missing if there is no room for its content.
    """
    return _runs_of(content_of(packed), packed)


def content_of(packed: Path) -> Path:
    """Return the folder with all files of a packed file, such as a bundle or a release; as
    `unpacked`, also for a file without runs."""
    status = packed.resolve().stat()
    return _content_of(packed.resolve(), status.st_mtime_ns, status.st_size)


def origin(path: Path) -> Path:
    """The packed file that this process has unpacked a path from; otherwise the path itself."""
    resolved = path.resolve()
    packed = next((_origins[folder] for folder in resolved.parents if folder in _origins), None)
    return resolved if packed is None else origin(packed)  # runs are packed within a bundle


@cache
def _content_of(packed: Path, mtime_ns: int, size: int) -> Path:
    def expand(content: Path) -> None:
        _expand(packed, content)

    kept = kept_content(packed, expand)
    if kept is not None and _origins.setdefault(kept.resolve(), packed) == packed:
        return kept
    _end_in_order()
    with ExitStack() as stack:
        folder = stack.enter_context(owned_folder(PREFIX, Path(tempfile.gettempdir())))
        content = folder / "content"
        with written_to(folder, "set TMPDIR to a folder with room"):
            _expand(packed, content)
        _origins[content.resolve()] = packed
        HELD.push(stack.pop_all())
    return content


def unpack(packed: Path, content: Path) -> Path:
    """Unpack a file into a new folder, which stays; return the RUNS folder in it. The runs of a
    bundle are packed once more; their folder lives as long as this process.

    Raises Damaged as `unpacked` does, and OSError if it cannot be written.
    """
    _expand(packed, content)
    return _runs_of(content, packed)


def _expand(packed: Path, content: Path) -> None:
    if not os.access(packed, os.R_OK):
        raise BadInput(f"{packed} cannot be read. Ask its owner for permission")
    content.mkdir()
    try:
        _unpack(packed, _allowed_bytes(packed), content)
    except CUT as error:
        raise Damaged(
            f"{packed} cannot be unpacked: it is truncated or not a packed file. Copy or pack "
            "it again"
        ) from error


def _runs_of(content: Path, packed: Path) -> Path:
    """The RUNS folder in what was unpacked from a file."""
    inner = content / BUNDLED
    if packed.name.endswith(ZIP) and inner.is_file():
        return unpacked(inner)
    return _runs_in(content, packed)


def _end_in_order() -> None:
    """Let a signal that ends the process end it in order, unless it has a handler already."""
    if threading.current_thread() is not threading.main_thread():
        return  # only the main thread may set a handler
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda number, frame: sys.exit(128 + number))


def _allowed_bytes(packed: Path) -> int:
    """The largest permitted content of a file: that of the outermost file which contains it, less
    the size of the stages in between."""
    folder = packed.resolve().parent
    if folder not in _origins:
        return limits.allowed_bytes(packed)
    taken = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return _allowed_bytes(_origins[folder]) - taken


def _unpack(packed: Path, allowed: int, content: Path) -> None:
    if packed.name.endswith(ZIP):
        unzip(packed, content, allowed)
        return
    with _expanded(packed) as expanded:
        stream = cast(IO[bytes], _Bounded(expanded, allowed, packed))
        with tarfile.open(
            fileobj=stream, mode="r|", bufsize=CHUNK_BYTES, tarinfo=_Member
        ) as parcel:
            for number, member in enumerate(parcel, start=1):
                if number > limits.MOST_MEMBERS or member.size > min(allowed, MOST_FILE_BYTES):
                    raise limits.too_large(packed)
                _take(parcel, member, content)
        while stream.read(CHUNK_BYTES):
            pass  # the check sum of a compressed file comes last


class _Member(tarfile.TarInfo):
    """A member whose header tells no size that tarfile would read into memory as a whole."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Member:
        member = super().frombuf(buf, encoding, errors)
        if member.size < 0 or (member.type in HEADERS and member.size > MOST_HEADER_BYTES):
            raise tarfile.ReadError("a header of this size is none")
        return member


class _Bounded:
    """A stream from which no more than `left` bytes can be read; Damaged beyond."""

    def __init__(self, stream: IO[bytes], left: int, packed: Path) -> None:
        self.stream, self.left, self.packed = stream, left, packed

    def read(self, size: int) -> bytes:
        content = self.stream.read(size)
        self.left -= len(content)
        if self.left < 0:
            raise limits.too_large(self.packed)
        return content


class _Xz(io.RawIOBase):
    """The content of an xz file, within a limit of memory, which the class of lzma does not have:
    the header of a file says how much memory reading it takes."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self.file, self.decoder = file, self._new()

    @staticmethod
    def _new() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY_BYTES)

    def read(self, size: int = -1) -> bytes:
        while True:
            given = b""
            if self.decoder.eof:
                # Several streams may follow one another, with zeros between them.
                given = self.decoder.unused_data.lstrip(b"\0")
                while not given:
                    more = self.file.read(CHUNK_BYTES)
                    if not more:
                        return b""
                    given = more.lstrip(b"\0")
                self.decoder = self._new()
            elif self.decoder.needs_input:
                given = self.file.read(CHUNK_BYTES)
                if not given:
                    raise EOFError("the file ends inside a stream")
            content = self.decoder.decompress(given, size)
            if content:
                return content


@contextmanager
def _expanded(packed: Path) -> Iterator[IO[bytes]]:
    with packed.open("rb") as file:
        if packed.name.endswith(".xz"):
            yield cast(IO[bytes], _Xz(file))
        else:
            with gzip.GzipFile(fileobj=file) as zipped:
                yield cast(IO[bytes], zipped)


def _take(parcel: tarfile.TarFile, member: tarfile.TarInfo, content: Path) -> None:
    """Write one member. `filter="data"` would do, but Python 3.11 has it only from 3.11.4 on."""
    inside = PurePosixPath(member.name)
    if not limits.is_inside(inside):
        raise limits.refused(member.name)
    if member.isdir():
        return
    sparse = member.issparse() or any(name.startswith("GNU.sparse") for name in member.pax_headers)
    file = parcel.extractfile(member) if member.isreg() and not sparse else None
    if file is None or not inside.parts:
        raise limits.refused(member.name)
    limits.write_member(content, str(inside), file)


def _runs_in(content: Path, packed: Path) -> Path:
    """The folder that holds the runs: the top one, or below it where it holds one folder only."""
    folder = content
    while True:
        entries = list(folder.iterdir())
        if (folder / STUDIES).is_dir() or any(map(is_run, entries)):
            return folder
        if len(entries) != 1 or not entries[0].is_dir():
            raise BadInput(f"{packed} contains no run. Pack runs with `labs runs pack`")
        folder = entries[0]
