"""The folder for a booted kernel's memory: it must allow executable mappings and have room.

User-Mode Linux backs the guest's memory with a file that it maps executable. In a folder mounted
noexec it stops at once; in one that is too small it panics in the middle of a run. The /dev/shm of
a container often has both defects, so the folder is tested before a kernel is booted.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
from pathlib import Path

from labs.drive.record.cache import cache
from labs.errors import Missing
from labs.guest.units import MIB

# Memory that a guest uses in addition to its experiment: page tables, tmpfs files, captures.
TOUCHED_MIB = 768
CACHE = "cache"


def candidates() -> tuple[tuple[str, Path], ...]:
    """The folders to try, in order, each with a description."""
    named = os.environ.get("LABS_MEMORY_DIR")
    if named:
        return (("LABS_MEMORY_DIR", Path(named).absolute()),)
    # Without HOME and without an entry in the user database, the cache would be a relative path.
    found = [
        ("shared memory", Path("/dev/shm")),
        ("XDG_RUNTIME_DIR", Path(os.environ.get("XDG_RUNTIME_DIR", ""))),
        ("TMPDIR", Path(os.environ.get("TMPDIR", ""))),
        (CACHE, cache_folder()),
        ("temporary files", Path("/tmp")),
        ("temporary files", Path("/var/tmp")),
    ]
    return tuple((what, folder) for what, folder in found if folder.is_absolute())


def cache_folder() -> Path:
    """The folder for guest memory in the user's cache; a relative path if there is no cache."""
    try:
        return cache() / "memory"
    except Missing:
        return Path("")


def refusal(folder: Path, memory_mib: int) -> str | None:
    """Why `folder` cannot hold `memory_mib` MiB of guest memory; None if it can."""
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.truncate(mmap.PAGESIZE)
            mmap.mmap(
                probe.fileno(),
                mmap.PAGESIZE,
                prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC,
            ).close()
            # A file on tmpfs is sparse, so the free blocks matter, not the size of the file.
            space = os.fstatvfs(probe.fileno())
    except PermissionError:
        return "mounted noexec" if os.access(folder, os.W_OK) else "not writable"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    # ramfs has no size of its own: what is written there is memory.
    free_mib = space.f_bavail * space.f_frsize // MIB if space.f_blocks else available_mib()
    if free_mib < memory_mib:
        return f"{free_mib} MiB free, {memory_mib} MiB needed"
    return None


def memory_folder(memory_mib: int) -> Path:
    """The first folder that can hold a guest's memory; Missing, with every reason, if none can."""
    reasons = []
    for what, folder in candidates():
        if what == CACHE:
            with contextlib.suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True)
        why = refusal(folder, memory_mib)
        if why is None:
            return folder
        reasons.append(f"{folder}: {why}")
    raise Missing(
        f"no folder can hold {memory_mib} MiB of guest memory ({'; '.join(reasons)}). "
        "Set LABS_MEMORY_DIR to a folder that has room and is not mounted noexec"
    )


def available_mib() -> int:
    """The available memory of this machine in MiB (MemAvailable in /proc/meminfo)."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) // 1024
    return 0
