"""The seal of a run: the sha256 of every file but `host.json`, and one digest over them all."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from labs.drive.record.canonical import canonical, digest, parse
from labs.drive.record.schema import SEAL_VERSION, check_version
from labs.errors import BadInput, Damaged, RunFailed

SEAL = "seal.json"
HOST = "host.json"
NOT_SEALED = frozenset({SEAL, HOST})


@dataclass(frozen=True)
class Seal:
    """`files`: path inside the folder -> sha256; `digest`: sha256 of their canonical JSON."""

    files: Mapping[str, str]
    digest: str

    def as_json(self) -> dict[str, object]:
        return {"schema": SEAL_VERSION, "files": dict(self.files), "digest": self.digest}


def compute(folder: Path) -> Seal:
    """Seal what is there; RunFailed if something in the folder is not a plain file."""
    files: dict[str, str] = {}
    for name, plain in _contents(folder):
        if not plain:
            raise RunFailed(
                f"{folder.name}/{name} is a link, socket or device; a run folder "
                "keeps plain files only, so write it elsewhere on the host"
            )
        files[name] = digest(folder / name)
    return Seal(files, digest(canonical(files)))


def read_seal(folder: Path) -> Seal:
    """Read the seal of a run folder, without looking at the files that it names.

    Raises BadInput if the folder is not a run or has another schema, Damaged if its seal is gone or
    contradicts itself.
    """
    if not folder.is_dir():
        raise BadInput(
            f"{folder} is not a folder; a run is a folder with run.json and {SEAL}: "
            "`labs runs list` shows those you have"
        )
    try:
        found = parse((folder / SEAL).read_bytes())
    except FileNotFoundError:
        raise _without_seal(folder) from None
    except OSError as error:
        raise _broken(folder, SEAL, f"cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise _broken(folder, SEAL, f"is not JSON ({error})") from error
    if not isinstance(found, dict):
        raise _broken(folder, SEAL, "is not a JSON object")
    check_version(found.get("schema"), f"the seal of {folder}", SEAL_VERSION)
    files = found.get("files")
    if not isinstance(files, dict) or digest(canonical(files)) != found.get("digest"):
        raise _broken(folder, SEAL, "was changed after the run was sealed")
    return Seal(files, str(found["digest"]))


def verify(folder: Path) -> Seal:
    """Compare every file with the seal and return it.

    Raises Damaged, naming the first file in the order of their names that differs, is missing or
    was added; and whatever `read_seal` raises.
    """
    seal = read_seal(folder)
    try:
        _compare(folder, seal)
    except OSError as error:
        name = Path(error.filename or folder).name
        raise _broken(folder, name, f"cannot be read ({error.strerror})") from error
    return seal


def _compare(folder: Path, seal: Seal) -> None:
    present = dict(_contents(folder))
    for name in sorted(seal.files.keys() | present.keys()):
        if name not in present:
            raise _broken(folder, name, "is missing")
        if name not in seal.files:
            raise _broken(folder, name, "was added after the run was sealed")
        if not present[name] or digest(folder / name) != seal.files[name]:
            raise _broken(folder, name, "was changed after the run was sealed")


def _contents(folder: Path, below: str = "") -> Iterator[tuple[str, bool]]:
    """Every entry but folders and the two that are not sealed: (path, is it a plain file)."""
    with os.scandir(folder / below) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        name = below + entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from _contents(folder, name + "/")
        elif name not in NOT_SEALED:
            yield name, entry.is_file(follow_symlinks=False)


def _without_seal(folder: Path) -> BadInput | Damaged:
    if (folder / "run.json").exists():
        return _broken(folder, SEAL, "is missing")
    return BadInput(
        f"{folder} is not a run: it has no run.json and no {SEAL}; "
        "`labs runs list` shows the runs you have"
    )


def _broken(folder: Path, name: str, what: str) -> Damaged:
    return Damaged(
        f"{folder}: {name} {what}; take the folder from where it came once more, "
        "or make the run again with --fresh"
    )
