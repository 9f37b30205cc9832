"""The namespaces testbed on this machine's own kernel, which needs root.

Each testbed keeps a journal, `/run/labs/TAG`, locked while its owner lives. If the owner is killed,
the next testbed undoes what the journal names. It consists of one JSON object per line, each
written before the change it describes:

    {"folder": path}                a folder that is created
    {"namespace": name}             a network namespace that is created
    {"sysctl": path, "value": text} a sysctl of the whole kernel that is changed, and its old value
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import gettempdir

from labs.drive.record.lock import Lock, abandoned
from labs.drive.record.removal import Made, is_own_folder, remove_folder, say_removed
from labs.errors import Missing
from labs.guest.testbed.link import Link
from labs.guest.testbed.namespaces import Namespaces, remove_namespace

JOURNALS = Path("/run/labs")


class OnThisMachine(Namespaces):
    """Namespaces of a kernel that others use too: their names have a tag, and a journal lists what
    to undo if this process is killed."""

    def __init__(self, link: Link) -> None:
        super().__init__(link, tag := f"labs-{os.urandom(4).hex()}", f"{tag}-")
        self._journal: Journal | None = None
        self._made: Made | None = None

    def __enter__(self) -> OnThisMachine:
        if os.geteuid():
            raise Missing(
                "the namespaces testbed needs root. Run as root, "
                "or use --testbed virtual, which any user can run"
            )
        super().__enter__()
        return self

    def note(self, **entry: str) -> None:
        if self._journal:
            self._journal.note(**entry)

    def _set_up(self) -> None:
        clear_stale()
        self._journal = Journal(self._tag)
        super()._set_up()

    def _make_folder(self) -> None:
        self._folder = Path(temporary(), self._tag)
        self.note(folder=str(self._folder))
        super()._make_folder()
        self._made = Made.of(self._folder)
        if self._journal:
            self._journal.note(folder=str(self._folder), made=self._made)

    def _remove_folder(self) -> None:
        if self._made:
            remove_folder(self._folder, self._made)

    def _tear_down(self) -> None:
        with contextlib.ExitStack() as steps:
            if self._journal:
                steps.callback(self._journal.close)
            steps.callback(super()._tear_down)


def temporary() -> str:
    """This machine's folder for temporary files."""
    return gettempdir()


def open_testbed(link: Link, ssh_config: str | None) -> OnThisMachine:
    """The hosts on this machine's own kernel, not set up yet."""
    return OnThisMachine(link)


class Journal:
    """The journal of one testbed; `close` it when everything that it names has been undone."""

    def __init__(self, tag: str) -> None:
        JOURNALS.mkdir(mode=0o755, exist_ok=True)
        self._lock = Lock.new(lambda: JOURNALS / tag)

    def note(self, **entry: str | Made) -> None:
        os.write(self._lock.descriptor, json.dumps(entry).encode() + b"\n")

    def close(self) -> None:
        self._lock.release()


def clear_stale() -> None:
    """Undo what testbeds whose owner no longer runs left on this machine."""
    for journal in abandoned(sorted(JOURNALS.glob("labs-*")) if is_own_folder(JOURNALS) else ()):
        for line in reversed(journal.path.read_text("utf-8").splitlines()):
            _undo(line, journal.path.name)
        say_removed(f"the testbed {journal.path.name}")


def _undo(line: str, tag: str) -> None:
    """Undo what a line of the journal of the testbed `tag` names, if it can be that testbed's."""
    try:
        entry = json.loads(line)
    except ValueError:
        return  # the owner was killed while writing the line, before it changed anything
    if not str(entry.get("namespace", tag)).startswith(tag):
        return
    undo: dict[str, Callable[[], object]] = {
        "folder": lambda: _remove(Path(entry["folder"]), entry.get("made")),
        "namespace": lambda: remove_namespace(entry["namespace"]),
        "sysctl": lambda: _write(Path("/proc/sys") / entry["sysctl"], entry["value"]),
    }
    for name in undo.keys() & entry.keys():
        with contextlib.suppress(OSError):
            undo[name]()


def _remove(folder: Path, made: list[int] | None) -> None:
    """Remove a folder; if its maker was killed before it noted which one it made, only an empty
    one."""
    if made is not None:
        remove_folder(folder, Made(*made))
    elif is_own_folder(folder):
        folder.rmdir()


def _write(path: Path, value: str) -> None:
    path.write_text(value)
