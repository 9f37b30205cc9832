"""What a testbed on this machine's own kernel leaves if it is killed, and how the next one clears.

Each testbed keeps a journal, `/run/labs/TAG`, locked while its owner lives: a JSON object a line,
written before the thing itself is done.

    {"folder": path}                a folder that it makes
    {"namespace": name}             a network namespace that it makes
    {"sysctl": path, "value": text} a sysctl of the whole kernel that it changes, as it was found
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

from labs.drive.kernel.process_group import await_end
from labs.drive.record.disk import OwnedPath, abandoned, remove_folder

JOURNALS = Path("/run/labs")
NAMESPACES = Path("/run/netns")
MNT_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)


class Journal:
    """The journal of one testbed; `close` when all that it names is undone."""

    def __init__(self, tag: str) -> None:
        JOURNALS.mkdir(mode=0o755, exist_ok=True)
        self._lock = OwnedPath.take(lambda: JOURNALS / tag)

    def note(self, **entry: str) -> None:
        os.write(self._lock.descriptor, json.dumps(entry).encode() + b"\n")

    def close(self) -> None:
        self._lock.release()


def clear_stale() -> None:
    """Undo what testbeds whose owner is gone left on this machine."""
    for journal in abandoned(sorted(JOURNALS.glob("labs-*")) if JOURNALS.is_dir() else ()):
        for line in reversed(journal.path.read_text("utf-8").splitlines()):
            _undo(line)


def _undo(line: str) -> None:
    try:
        entry = json.loads(line)
    except ValueError:
        return  # its owner was killed in the middle of the line, before it did anything
    undo: dict[str, Callable[[], None]] = {
        "folder": lambda: remove_folder(Path(entry["folder"])),
        "namespace": lambda: remove_namespace(entry["namespace"]),
        "sysctl": lambda: _write(Path("/proc/sys") / entry["sysctl"], entry["value"]),
    }
    for name in undo.keys() & entry.keys():
        with contextlib.suppress(OSError):
            undo[name]()


def _write(path: Path, value: str) -> None:
    path.write_text(value)


def remove_namespace(name: str) -> None:
    """End what runs in a network namespace, and the namespace, if it is there."""
    path = NAMESPACES / name
    try:
        about = path.stat()
    except FileNotFoundError:
        return
    for pid in inside((about.st_dev, about.st_ino)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        await_end(pid, 2)
    # What `ip netns delete` does, without the cost of a process.
    _libc.umount2(os.fsencode(path), MNT_DETACH)
    path.unlink(missing_ok=True)


def inside(namespace: tuple[int, int]) -> list[int]:
    """The other processes that live in a network namespace, given by its device and inode."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                about = os.stat(f"/proc/{name}/ns/net")
                if (about.st_dev, about.st_ino) == namespace:
                    found.append(int(name))
    return found
