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
from labs.drive.record.flock import hold, release, seize

JOURNALS = Path("/run/labs")
NAMESPACES = Path("/run/netns")
MNT_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)


class Journal:
    """The journal of one testbed; `close` when all that it names is undone."""

    def __init__(self, tag: str) -> None:
        JOURNALS.mkdir(mode=0o755, exist_ok=True)
        self._path = JOURNALS / tag
        self._lock = hold(self._path)

    def note(self, **entry: str) -> None:
        os.write(self._lock, json.dumps(entry).encode() + b"\n")

    def close(self) -> None:
        release(self._path, self._lock)


def clear_stale() -> None:
    """Undo what testbeds whose owner is gone left on this machine."""
    for path in sorted(JOURNALS.glob("labs-*")) if JOURNALS.is_dir() else ():
        lock = seize(path)
        if lock is None:
            continue
        try:
            for line in reversed(path.read_text("utf-8").splitlines()):
                _undo(line)
        finally:
            release(path, lock)


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


def remove_folder(folder: Path) -> None:
    """Remove a folder and all below it; shutil would cost a tenth of a second inside."""
    for at, folders, files in os.walk(folder, topdown=False):
        for name in files:
            os.unlink(os.path.join(at, name))
        for name in folders:
            path = os.path.join(at, name)
            (os.unlink if os.path.islink(path) else os.rmdir)(path)
    with contextlib.suppress(FileNotFoundError):
        folder.rmdir()
