"""Put a built kernel into a store whole, or not at all; and clear what killed builds left."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labs.drive.kernel.store import CONFIG, PATCHES, PROGRAM, RECORD, Kernel, read
from labs.drive.record.locked_tempdir import clear_stale, held_folder
from labs.errors import Missing

WORK = ".work-"


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
    store: Path, room_mib: int, elsewhere: str = "in XDG_CACHE_HOME or with --into"
) -> Iterator[Path]:
    """A folder inside the store to build in; gone afterwards, whatever happens.

    What killed builds left behind is removed first. Missing if there is too little room, or no
    right to write; `elsewhere` says how to name another place.
    """
    with contextlib.ExitStack() as stack:
        try:
            store.mkdir(parents=True, exist_ok=True)
            # Before the room is measured: leftovers may be what fills the disk.
            clear_stale(WORK, store)
            free_mib = shutil.disk_usage(store).free >> 20
            if free_mib < room_mib:
                raise Missing(
                    f"a build needs {room_mib} MiB below {store}, free are {free_mib}; "
                    f"make room, or name another folder {elsewhere}"
                )
            folder = stack.enter_context(held_folder(WORK, store))
        except OSError as error:
            raise Missing(
                f"cannot write in {store} ({error.strerror}); name a folder that can be "
                f"written {elsewhere}"
            ) from None
        yield folder
