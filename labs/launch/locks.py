"""Locks that one process holds at a time, and messages for the processes that wait for them.

A lock (`labs.drive.record.lock`) names its holder. In a folder that several users may write to,
another user can create the file first: that is refused.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from labs.drive.record.disk import written_to
from labs.drive.record.lock import Lock, abandoned, read_note

SHORTEST_LOOK_S, LOOK_S = 0.005, 0.2
"""How long a wait sleeps between attempts: at first, and after some doublings."""
TELL_AGAIN_S = 60.0

Found = TypeVar("Found")


@dataclass(frozen=True)
class Holder:
    """The holder of a lock: its process id, its purpose, since when (seconds since 1970), and
    whether its work has begun or still waits for something else."""

    pid: int
    what: str
    since_s: float
    begun: bool

    def describe(self) -> str:
        """Such as "process 4711 (both, for 12 s)"."""
        held_s = max(0, round(time.time() - self.since_s))
        held = f"{held_s} s" if held_s < 120 else f"{held_s // 60} min"
        return f"process {self.pid} ({self.what}, {'for' if self.begun else 'waiting for'} {held})"


def take(path: Path, what: str, next_step: str, *, begun: bool = True) -> Lock | None:
    """Lock a path and write its holder into it; None if another process holds it.

    `begun` is false if the holder first waits for something else. BadInput or Missing, with
    `next_step`, if the path cannot be written or locked, or is not a lock of this user.
    """
    with written_to(path.parent, next_step):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = Lock.take(path)
        if lock is not None:
            name(lock, what, begun=begun)
        return lock


def name(lock: Lock, what: str, *, begun: bool) -> None:
    """Write the new holder of a lock, and its purpose, into the file."""
    lock.note(**asdict(Holder(os.getpid(), what, time.time(), begun)))


def holder(path: Path) -> Holder | None:
    """The holder of a lock; None if it is free, or just before its holder has written its name. The
    file of a killed process is removed."""
    for _ in abandoned([path]):
        return None
    match read_note(path):
        case {"pid": int(pid), "what": str(what), "since_s": float(since_s), "begun": bool(begun)}:
            return Holder(pid, what, since_s, begun)
    return None


def wait_for(
    attempt: Callable[[], Found | None],
    what: Callable[[], str],
    cancelled: Callable[[], bool],
    tell: Callable[[str], None],
) -> Found:
    """Call `attempt` until it returns something; KeyboardInterrupt once `cancelled` returns true.

    `tell` receives what this waits for if that takes longer than an inspection, and then every
    minute.
    """
    begun_s, told_s, look_s = time.monotonic(), -TELL_AGAIN_S, SHORTEST_LOOK_S
    while (result := attempt()) is None:
        if cancelled():
            raise KeyboardInterrupt
        # A process that inspects a lock holds it for an instant, so first attempts may fail.
        now_s = time.monotonic()
        if now_s - begun_s >= LOOK_S and now_s - told_s >= TELL_AGAIN_S:
            tell(what())
            told_s = now_s
        time.sleep(look_s)
        look_s = min(2 * look_s, LOOK_S)
    return result
