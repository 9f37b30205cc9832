"""Places for runs side by side: as many as a user's processes may take, each with a CPU.

A place is a lock in a folder of the user's own, in the cache, named after this boot of the
machine because machines may share a home folder. Nobody else can hold it. Containers and mount
namespaces that see the same cache share its places. A run begins when the free memory holds it
beside the runs that have just begun, which have not touched theirs yet.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from labs.drive.kernel.memory import TOUCHED_MIB, available_mib
from labs.drive.record.disk import OwnedPath, abandoned, cache, written_to
from labs.errors import BadInput, Missing
from labs.launch.locks import Holder, holder, name, take, wait_for

# A run touches nearly all of its memory while its kernel boots and its hosts are set up.
SETTLED_S = 10.0
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
NEXT_STEP = "name another folder in XDG_CACHE_HOME"


def limit() -> int:
    """How many runs of this user may be performed at once: LABS_JOBS, or one per CPU."""
    named = os.environ.get("LABS_JOBS")
    if named is None:
        return len(cpus())
    if not named.isascii() or not named.isdigit() or not 1 <= int(named) <= 1024:
        raise BadInput(f"LABS_JOBS is '{named}'; it is a whole number from 1 to 1024")
    return int(named)


def side_by_side(asked: int | None, missing: int) -> int:
    """How many of the missing runs to make at once: what is asked for or the limit, and no more
    than the free memory holds; one at least, which then says itself what it lacks."""
    return max(1, min(asked or limit(), missing, available_mib() // TOUCHED_MIB))


def cpus() -> list[int]:
    """The CPUs that this process may use."""
    return sorted(os.sched_getaffinity(0))


def path(name: str) -> Path:
    """The lock of a place, by its number, or of the memory; in a folder of the user's own."""
    return cache() / "places" / f"{BOOT_ID.read_text().strip()}-{name}"


def held() -> dict[str, Holder]:
    """The places that are held, and by whom."""
    first = path("")
    numbers = {
        one.name.removeprefix(first.name)
        for one in first.parent.glob(f"{first.name}*")
        if one.name.removeprefix(first.name).isdigit()
    }
    found = {number: holder(path(number)) for number in sorted(numbers, key=int)}
    return {number: by for number, by in found.items() if by}


def in_words() -> str:
    """How many places there are, and who holds them."""
    bound = "LABS_JOBS" if "LABS_JOBS" in os.environ else "one per CPU"
    by = ", ".join(one.in_words() for one in held().values())
    return f"{limit()} at most ({bound}); held by {by or 'nobody'}"


@contextlib.contextmanager
def slot(run: str, cancelled: Callable[[], bool], tell: Callable[[str], None]) -> Iterator[int]:
    """Wait for a place and for memory, and give the CPU to pin to.

    `tell` hears what is waited for. Missing if there is not enough memory for a single run.
    """
    _prepare(path("").parent)
    number, place = wait_for(
        lambda: free_place(run), lambda: f"for a place: {in_words()}", cancelled, tell
    )
    with place:
        wait_for(
            lambda: begin(place, run) or None,
            lambda: f"for memory: {available_mib()} MiB are free; places: {in_words()}",
            cancelled,
            tell,
        )
        allowed = cpus()
        # Users do not see each other's places: without their id all would begin at one CPU.
        yield allowed[(number + os.getuid()) % len(allowed)]


def _prepare(where: Path) -> None:
    """Make the folder, open to its owner alone; remove what killed processes left there."""
    with written_to(where, NEXT_STEP):
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
    for _ in abandoned(where.iterdir()):
        pass


def free_place(run: str) -> tuple[int, OwnedPath] | None:
    """A place that was free, and its lock; None if all are held."""
    for number in range(limit()):
        place = take(path(str(number)), run, NEXT_STEP, begun=False)
        if place is not None:
            return number, place
    return None


def begin(place: OwnedPath, run: str) -> bool:
    """Whether the memory holds one more run; if so its place says from now on that it has begun.

    Missing if it does not, and there is no run whose end would change that.
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
                f"a run needs {TOUCHED_MIB} MiB of memory and {free_mib} are free; "
                "close something, or lower LABS_JOBS"
            )
        return False
