"""What identifies stored things: canonical JSON, digests, the key of a run and its seal.

Two values that are equal as JSON have the same canonical bytes on every machine and under every
Python: keys sorted, no spaces, ASCII, numbers without a fraction written as integers (`200.0`
and `200` are one number in JSON), all other floats as Python's `repr`, which is the shortest text
that reads back to the same double. The key of a run is the sha256 of its inputs in canonical JSON.
Its seal has the sha256 of every file but `host.json`, and one digest over them all.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from labs.drive.record.stored_files import (
    AGAIN,
    MOST_JSON_BYTES,
    MOST_RAW_JSON_BYTES,
    SEAL_VERSION,
    check_version,
    read_json,
)
from labs.errors import BadInput, Damaged, RunFailed

RUN = "run.json"
SEAL = "seal.json"
HOST = "host.json"
MOST_FILE_BYTES = 8 << 30
"""Of a file of a run; the largest is the capture of a download of 64 GiB, 7 GB."""
NOT_SEALED = frozenset({SEAL, HOST})


def canonical(value: object) -> bytes:
    """Return the canonical JSON of a value.

    `value` is made of None, bool, int, float, str, lists or tuples, and mappings with str keys.
    Raises BadInput for NaN, an infinity, a key that is not a str, or any other type.
    """
    return json.dumps(
        normalised(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True
    ).encode("ascii")


def pretty(value: object) -> bytes:
    """Return the same value for people: sorted keys, indent 1, a newline at the end."""
    return (json.dumps(normalised(value), sort_keys=True, indent=1) + "\n").encode("ascii")


def normalised(value: object, where: str = "") -> object:
    """Return `value` as plain JSON types; `where` is its dotted name, for the message."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _number(value, where)
    if isinstance(value, Mapping):
        return {
            _name(name, where): normalised(item, _below(where, name))
            for name, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [normalised(item, _below(where, at)) for at, item in enumerate(value)]
    raise BadInput(
        f"{where or 'the value'} is of type {type(value).__name__}, which JSON does not have; "
        "give numbers, text, true/false, null, lists or objects"
    )


def _number(value: float, where: str) -> int | float:
    if value != value or value in (float("inf"), float("-inf")):
        raise BadInput(
            f"{where or 'the value'} is {value}, which JSON does not have; "
            "give a finite number, or null for none"
        )
    return int(value) if value.is_integer() else float(value)


def _name(name: object, where: str) -> str:
    if isinstance(name, str):
        return name
    raise BadInput(f"a key of {where or 'the value'} is {name!r}; keys of JSON are text")


def _below(where: str, part: object) -> str:
    return f"{where}.{part}" if where else str(part)


def digest(content: bytes | os.PathLike[str]) -> str:
    """Return the sha256, as 64 hex digits, of bytes or of the file at a path."""
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    with open(content, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def key(inputs: Mapping[str, object]) -> str:
    """Return the key of a run: the sha256 of its inputs in canonical JSON."""
    return digest(canonical(inputs))


@dataclass(frozen=True)
class Seal:
    """`files`: path inside the folder -> sha256; `digest`: sha256 of their canonical JSON."""

    files: Mapping[str, str]
    digest: str

    def as_json(self) -> dict[str, object]:
        return {"schema": SEAL_VERSION, "files": dict(self.files), "digest": self.digest}


def check_contents(folder: Path) -> None:
    """RunFailed for what a run may not contain: links, devices, files with several names, files
    that are too large to be read, and the two that are written when it is sealed."""
    for name in NOT_SEALED:
        if os.path.lexists(folder / name):
            raise RunFailed(
                f"the run wrote {name}, a name that is kept for the seal of a run. Let the "
                "experiment use another name"
            )
    for name, size in _contents(folder):
        if size is None or os.lstat(folder / name).st_nlink > 1:
            raise RunFailed(
                f"{folder.name}/{name} is a link, socket, device or a file with several names. "
                "A run contains regular files only. Let the experiment write it elsewhere"
            )
        if size > _most_bytes(name):
            raise RunFailed(
                f"{folder.name}/{name} has {size} bytes. Allowed: at most {_most_bytes(name)}. "
                "Let the experiment keep less"
            )


def compute(folder: Path) -> Seal:
    """Seal a folder that `check_contents` accepted; RunFailed if it has too many files."""
    files = {name: digest(folder / name) for name, _ in _contents(folder)}
    seal = Seal(files, digest(canonical(files)))
    if len(pretty(seal.as_json())) > MOST_JSON_BYTES:
        raise RunFailed(
            f"{folder.name} has {len(files)} files, too many for one seal. Let the experiment keep "
            "fewer"
        )
    return seal


def _most_bytes(name: str) -> int:
    if name == RUN:
        return MOST_JSON_BYTES
    return MOST_RAW_JSON_BYTES if name.endswith(".json") else MOST_FILE_BYTES


def read_seal(folder: Path) -> Seal:
    """Read the seal of a run folder, without looking at the files that it names.

    Raises BadInput if the folder is not a run or has another schema, Damaged if its seal is gone or
    contradicts itself.
    """
    if not folder.is_dir():
        raise BadInput(
            f"{folder} is not a folder; a run is a folder with {RUN} and {SEAL}: "
            "`labs runs list` shows those you have"
        )
    if not os.path.lexists(folder / SEAL):
        raise _without_seal(folder)
    content = read_json(folder / SEAL)
    check_version(content.get("schema"), f"the seal of {folder}", SEAL_VERSION)
    files = content.get("files")
    if not isinstance(files, dict) or digest(canonical(files)) != content.get("digest"):
        raise _broken(folder, SEAL, "was changed after the run was sealed")
    return Seal(files, str(content["digest"]))


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
        size = present[name]
        if (
            size is None
            or size > _most_bytes(name)  # no such file is sealed, and reading it takes long
            or digest(folder / name) != seal.files[name]
        ):
            raise _broken(folder, name, "was changed after the run was sealed")


def _contents(folder: Path) -> Iterator[tuple[str, int | None]]:
    """Every entry but folders and the two that are not sealed: its path, and its size in bytes,
    None for what is not a plain file."""
    waiting = [""]
    while waiting:
        below = waiting.pop()
        with os.scandir(folder / below) as entries:
            for entry in entries:
                name = below + entry.name
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(name + "/")
                elif name not in NOT_SEALED:
                    about = entry.stat(follow_symlinks=False)
                    yield name, about.st_size if stat.S_ISREG(about.st_mode) else None


def _without_seal(folder: Path) -> BadInput | Damaged:
    if os.path.lexists(folder / RUN):
        return _broken(folder, SEAL, "is missing")
    return BadInput(
        f"{folder} is not a run: it has no {RUN} and no {SEAL}; "
        "`labs runs list` shows the runs you have"
    )


def _broken(folder: Path, name: str, what: str) -> Damaged:
    return Damaged(f"{folder}: {name} {what}. {AGAIN}")
