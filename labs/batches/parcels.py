"""Kernels as they are sent to a worker, by digest, and kept in its user's store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from labs.drive.kernel import store
from labs.drive.kernel.store import Kernel
from labs.drive.record.seal import digest
from labs.errors import Damaged, Missing

ROOM_MIB = 64
NEXT_STEP = "in XDG_CACHE_HOME"


def of_kernel(kernel: Kernel) -> dict[str, Any]:
    """A kernel with its record, configuration and patches, as types that msgpack supports."""
    config = kernel.folder / store.CONFIG
    return {
        "program": kernel.path.read_bytes(),
        "record": json.dumps(store.record(kernel.folder)),
        "config": config.read_text("utf-8") if config.is_file() else None,
        "patches": {
            path.name: path.read_bytes() for path in (kernel.folder / store.PATCHES).glob("*")
        },
    }


def kernel_here(sha256: str) -> Kernel | None:
    """This user's kernel with this digest, or None; Damaged if its content differs."""
    try:
        return store.find(sha256)
    except Missing:
        return None


def keep_kernel(sha256: str, parcel: Mapping[str, Any]) -> Kernel:
    """Verify a received kernel and keep it in this user's store; Damaged if it differs."""
    record = json.loads(parcel["record"])
    patches = dict(parcel["patches"])
    if digest(parcel["program"]) != sha256 or record.get("sha256") != sha256:
        raise Damaged(f"the kernel {sha256[:12]} was changed in transit. Run again")
    if any(name != PurePath(name).name for name in patches):
        raise Damaged(f"the kernel {sha256[:12]} has patches outside its folder. Run again")
    with store.work_folder(store.own_store(), ROOM_MIB, NEXT_STEP) as work:
        program = work / "sent"
        program.write_bytes(parcel["program"])
        return store.keep(program, record, config=parcel["config"], patches=patches, work=work)
