"""Slots for concurrent runs: as many as the processes of one user may occupy, each with a CPU.

A slot is a lock in a private folder of the user's cache. Its name contains this machine's boot ID,
because machines may share a home folder. Nobody else can hold it. Containers and mount namespaces
that see the same cache share its slots. A run begins when the free memory suffices for it and for
the runs that have just begun and have not used their memory yet.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from labs.drive.kernel.memory import TOUCHED_MIB, available_mib
from labs.drive.record.cache import cache, private_folder
from labs.drive.record.disk import written_to
from labs.drive.record.lock import Lock, abandoned
from labs.errors import BadInput, Missing
from labs.launch.locks import Holder, holder, name, take, wait_for

# A run uses nearly all of its memory while its kernel boots and its hosts are set up.
SETTLED_S = 10.0
LOCK_NAME = re.compile(r"[0-9a-f-]{36}-(\d+|memory)")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
NEXT_STEP = "name another folder in XDG_CACHE_HOME"


def limit() -> int:
    """The maximum number of concurrent runs of this user: LABS_JOBS, or one per CPU."""
    named = os.environ.get("LABS_JOBS")
    if named is None:
        return len(cpus())
    if not named.isascii() or not named.isdigit() or not 1 <= int(named) <= 1024:
        raise BadInput(f"LABS_JOBS is '{named}'. Allowed: a whole number from 1 to 1024")
    return int(named)


def side_by_side(asked: int | None, missing: int) -> int:
    """The number of missing runs to perform concurrently: the requested number or the limit, and
    no more than the free memory holds; at least one, which reports itself what it lacks."""
    return max(1, min(asked or limit(), missing, available_mib() // TOUCHED_MIB))


def cpus() -> list[int]:
    """The CPUs that this process may use."""
    return sorted(os.sched_getaffinity(0))


def path(name: str) -> Path:
    """The lock of a slot, by its number, or of the memory; in a private folder of the user."""
    return cache() / "places" / f"{BOOT_ID.read_text().strip()}-{name}"


def held() -> dict[str, Holder]:
    """The occupied slots and their holders."""
    first = path("")
    names = [lock.name.removeprefix(first.name) for lock in first.parent.glob(f"{first.name}*")]
    numbers = sorted(filter(str.isdigit, names), key=int)
    return {number: by for number in numbers if (by := holder(path(number)))}


def describe() -> str:
    """The number of slots, and who holds them."""
    bound = "LABS_JOBS" if "LABS_JOBS" in os.environ else "one per CPU"
    by = ", ".join(owner.describe() for owner in held().values())
    return f"at most {limit()} ({bound}); held by {by or 'nobody'}"


@contextlib.contextmanager
def slot(run: str, cancelled: Callable[[], bool], tell: Callable[[str], None]) -> Iterator[int]:
    """Wait for a slot and for memory, and yield the CPU to pin the run to.

    `tell` receives what the run waits for. Missing if memory does not suffice for a single run.
    """
    _prepare(path("").parent)
    number, place = wait_for(
        lambda: free_place(run), lambda: f"for a slot: {describe()}", cancelled, tell
    )
    with place:
        wait_for(
            lambda: begin(place, run) or None,
            lambda: f"for memory: {available_mib()} MiB are free; slots: {describe()}",
            cancelled,
            tell,
        )
        allowed = cpus()
        # Users do not see each other's slots: without the user id all would start at the same CPU.
        yield allowed[(number + os.getuid()) % len(allowed)]


def _prepare(where: Path) -> None:
    """Create the folder, accessible to its owner only, and that of `drive.compiled`, which does not
    look who may write to it; remove what killed processes left there."""
    for kind in (where.name, "programs"):
        with written_to(where.with_name(kind), NEXT_STEP):
            private_folder(kind)
    for _ in abandoned(path for path in where.iterdir() if LOCK_NAME.fullmatch(path.name)):
        pass


def free_place(run: str) -> tuple[int, Lock] | None:
    """A slot that was free, and its lock; None if all are held."""
    for number in range(limit()):
        place = take(path(str(number)), run, NEXT_STEP, begun=False)
        if place is not None:
            return number, place
    return None


def begin(place: Lock, run: str) -> bool:
    """Whether the memory suffices for one more run; if so, its slot is marked as begun.

    Missing if it does not suffice and no other run will end and free memory.
    """
    memory = take(path("memory"), run, NEXT_STEP)
    if memory is None:
        return False
    with memory:
        others = [by for by in held().values() if by.begun]
        settling = [by for by in others if time.time() - by.since_s < SETTLED_S]
        free_mib = available_mib()
        if free_mib >= TOUCHED_MIB * (1 + len(settling)):
            name(place, run, begun=True)
            return True
        if not others:
            raise Missing(
                f"a run needs {TOUCHED_MIB} MiB of memory, and {free_mib} MiB are free. "
                "Close other programs, or lower LABS_JOBS"
            )
        return False
