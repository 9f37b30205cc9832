"""Put a kernel into a store whole or not at all: one that was built here, or built elsewhere.

A kernel that was built elsewhere is kept after its digest and its figures were checked. What
killed builds left in the store is cleared.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labs.drive.kernel import store
from labs.drive.kernel.check import check
from labs.drive.kernel.store import CONFIG, PATCHES, PROGRAM, RECORD, Kernel, read
from labs.drive.record.disk import clear_folders, owned_folder
from labs.errors import BadInput, Damaged, Missing

WORK = ".work-"
ROOM_MIB = 128  # for a kernel that is added


def keep(
    program: Path,
    content: dict[str, Any],
    *,
    config: str | None,
    patches: dict[str, bytes],
    work: Path,
) -> Kernel:
    """Keep a kernel program with its record, configuration and patches in the store of `work`.

    The folder gets its name when all of it is written. A kernel with the same digest that is
    there already stays, and gets the new record.
    """
    new = work / "new"
    (new / PATCHES).mkdir(parents=True)
    shutil.copyfile(program, new / PROGRAM)
    (new / PROGRAM).chmod(0o755)
    if config is not None:
        (new / CONFIG).write_text(config, "utf-8")
    for name, patch in patches.items():
        (new / PATCHES / name).write_bytes(patch)
    (new / RECORD).write_text(
        json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n", "utf-8"
    )
    folder = work.parent / str(content["sha256"])
    try:
        new.rename(folder)
    except OSError:
        for name in (PROGRAM, CONFIG, RECORD):
            if (new / name).exists():
                (new / name).replace(folder / name)
    return read(folder)


@contextlib.contextmanager
def work_folder(
    where: Path, room_mib: int, elsewhere: str = "in XDG_CACHE_HOME or with --into"
) -> Iterator[Path]:
    """A folder inside the store to build in; gone afterwards, whatever happens.

    What killed builds left behind is removed first. Missing if there is too little room, or no
    right to write; `elsewhere` says how to name another place.
    """
    with contextlib.ExitStack() as stack:
        try:
            where.mkdir(parents=True, exist_ok=True)
            # Before the room is measured: leftovers may be what fills the disk.
            clear_folders(WORK, where)
            free_mib = shutil.disk_usage(where).free >> 20
            if free_mib < room_mib:
                raise Missing(
                    f"a build needs {room_mib} MiB below {where}, free are {free_mib}; "
                    f"make room, or name another folder {elsewhere}"
                )
            folder = stack.enter_context(owned_folder(WORK, where))
        except OSError as error:
            raise Missing(
                f"cannot write in {where} ({error.strerror}); name a folder that can be "
                f"written {elsewhere}"
            ) from None
        yield folder


def plan_add(file: Path, sha256: str, *, into: Path | None = None) -> dict[str, Any]:
    """What `add` would do, as plain data, after the file's digest was checked."""
    check_digest(file, sha256)
    return {
        "file": str(file),
        "sha256": sha256.lower(),
        "into": str((into or store.own_store()) / sha256.lower()),
    }


def check_digest(file: Path, sha256: str) -> None:
    """BadInput for a digest that is none or a file that is not there; Damaged if they differ."""
    if not re.fullmatch(r"[0-9a-fA-F]{64}", sha256):
        raise BadInput(
            f"--sha256 {sha256} is not a digest: give all 64 hex digits, as sha256sum prints them"
        )
    if not file.is_file():
        raise BadInput(f"{file} is not a file: give a User-Mode Linux kernel")
    if (found := store.digest_of(file)) != sha256.lower():
        raise Damaged(
            f"{file} has the sha256 {found}, not {sha256.lower()}: fetch it again, or "
            "ask who built it for the digest"
        )


def add(file: Path, sha256: str, *, into: Path | None = None) -> store.Kernel:
    """Check a kernel file and keep it in `into` (the user's store) under its digest.

    Version and tick are what the booted kernel says of itself. RunFailed if it fails the check.
    """
    check_digest(file, sha256)
    with work_folder((into or store.own_store()).resolve(), ROOM_MIB) as work:
        program = work / "linux"
        shutil.copyfile(file, program)
        program.chmod(0o755)
        # Once more: what is kept is the copy.
        check_digest(program, sha256)
        measured = check(program)
        content = {
            "schema": store.SCHEMA,
            "version": measured["release"],
            "source": measured["release"],
            "sha256": sha256.lower(),
            "hz": measured["hz"],
            "added": True,
            "checked": measured,
        }
        return keep(program, content, config=None, patches={}, work=work)
