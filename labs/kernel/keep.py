"""Put a built kernel into a store whole, or not at all; and clear what killed builds left."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labs.errors import Missing
from labs.kernel.store import CONFIG, PATCHES, PROGRAM, RECORD, Kernel, read

WORK = ".work-"
LOCK = "lock"


def keep(program: Path, content: dict[str, Any], *, config: str | None, patches: dict[str, bytes],
         work: Path) -> Kernel:
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
    store: Path, room_mib: int, elsewhere: str = "in XDG_CACHE_HOME or with --into",
) -> Iterator[Path]:
    """A folder inside the store to build in; gone afterwards, whatever happens.

    It holds a lock for as long as its owner lives: folders with a free lock were left behind by
    a killed build and are removed first. Missing if there is too little room, or no right to
    write; `elsewhere` says how to name another place.
    """
    try:
        store.mkdir(parents=True, exist_ok=True)
        clear_stale(store)
        free_mib = shutil.disk_usage(store).free >> 20
        if free_mib < room_mib:
            raise Missing(f"a build needs {room_mib} MiB below {store}, free are {free_mib}; "
                          f"make room, or name another folder {elsewhere}")
        folder, lock = _locked_folder(store)
    except OSError as error:
        raise Missing(f"cannot write in {store} ({error.strerror}); name a folder that can be "
                      f"written {elsewhere}") from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _locked_folder(store: Path) -> tuple[Path, int]:
    """A new work folder and the lock that says that it is in use."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=WORK, dir=store))
        lock = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Another build may have taken the folder for a leftover before the lock was held.
        if (folder / LOCK).exists():
            return folder, lock
        os.close(lock)


def clear_stale(store: Path) -> None:
    """Remove the work folders in `store` whose owner is gone."""
    for folder in store.glob(WORK + "*"):
        try:
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)
