"""Runs as one file, the same bytes wherever and whenever it is packed.

The file holds a RUNS folder: the run folders, and studies/ where studies were packed. Names are
sorted; times, owners and modes are fixed. host.json, which tells of the machine, is left out
unless it is asked for; the seal holds without it.
"""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from labs.drive.record.canonical import digest, pretty
from labs.drive.record.owned_path import whole_file
from labs.drive.record.run_folder import STUDIES
from labs.drive.record.seal import HOST, SEAL, verify
from labs.drive.record.study_file import StudyFile
from labs.errors import BadInput
from labs.read.runs.listing import is_run, open_study, run_folders, runs_folder, study_files
from labs.read.runs.unpack import ENDINGS, is_packed

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
