"""A run folder from its first file to its name: staged, sealed, renamed in one step.

While a run is made, three names in RUNS belong to it (token = NAME-PID-N):

    .lock-TOKEN      locked while the owner lives (`record/disk.py`); not part of the run
    .staging-TOKEN   the folder that becomes RUNS/NAME by one rename
    .replaced-TOKEN  the run of that name that was there before, for the time of two renames

A kill at any point leaves either a staging folder, which `clear_stale` removes, or an interrupted
replacement, which it finishes: forward if the new run is whole, else back.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from types import TracebackType

from labs.drive.record.disk import OwnedPath, abandoned, numbered, remove_folder, written_to
from labs.drive.record.seal import HOST, SEAL, compute, pretty, verify
from labs.errors import BadInput, LabError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")
TOKEN = re.compile(r"\.(?:lock|staging|replaced)-((.+)-\d+-\d+)")
STUDIES = "studies"


def run_name(lab: str, condition: str, key: str) -> str:
    """Return the name of a run's folder: LAB-CONDITION-the first 12 digits of its key."""
    return checked_name(f"{lab}-{condition}-{key[:12]}")


class Staging:
    """A run folder in the making; a context manager that discards it unless it was sealed."""

    def __init__(self, runs: Path, name: str) -> None:
        """Make RUNS (if need be) and a staging folder for the run `name` in it, and lock it.

        Raises BadInput for a name that is not a folder name or a RUNS that cannot be written.
        """
        self.runs, self.name = Path(runs), checked_name(name)
        with written_to(self.runs):
            self.runs.mkdir(parents=True, exist_ok=True)
            self._lock = OwnedPath.take(numbered(self.runs / self.name, ".lock"))
            self._token = self._lock.path.name.removeprefix(".lock-")
            self.folder = self.runs / f".staging-{self._token}"
            try:
                self.folder.mkdir()
                self.folder.chmod(0o755)  # whatever the umask: a guest sees it
            except BaseException:
                self._lock.release()
                raise
        self._open = True

    def path(self, name: str) -> Path:
        """Return the path of a file of the run; the folders above it are made."""
        inside = PurePosixPath(name)
        if not inside.parts or inside.is_absolute() or ".." in inside.parts:
            raise BadInput(f"{name!r} is not a path inside a run; give one like server/ss.txt")
        path = self.folder / inside
        with written_to(self.runs):
            path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write(self, name: str, content: bytes) -> None:
        """Write a file of the run."""
        path = self.path(name)
        with written_to(self.runs):
            path.write_bytes(content)

    def write_json(self, name: str, value: object) -> None:
        """Write a JSON file of the run: sorted keys, indent 1, a newline at the end."""
        self.write(name, pretty(value))

    def seal(self, host: Mapping[str, object], *, replace: bool = True) -> Path:
        """Seal the folder, write `host` as host.json, give the run its name; return its path.

        A run of that name that is already there is replaced in one step, or, with `replace` off
        and if its own seal holds, kept, and this one is discarded. Raises RunFailed if something
        in the folder is not a plain file, Missing if the disk is full.
        """
        assert self._open, "a staging folder is sealed or discarded once"
        final = self.runs / self.name
        with written_to(self.runs):
            _fix_modes(self.folder)  # a tool may have left a file that its owner cannot read
            self.write_json(SEAL, compute(self.folder).as_json())
            self.write_json(HOST, host)
            _fix_modes(self.folder)
            _to_disk(self.folder)
            if replace or not _holds(final):
                _give_name(self.folder, final, self.runs / f".replaced-{self._token}")
        self.discard()
        return final

    def discard(self) -> None:
        """Remove the staging folder and its lock; a folder that was sealed has left already."""
        if self._open:
            self._open = False
            remove_folder(self.folder)
            self._lock.release()

    def __enter__(self) -> Staging:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.discard()


def clear_stale(runs: Path) -> list[str]:
    """Clear what owners that are gone left in RUNS; return the names of their runs.

    What belongs to a process that lives, or to another user, is left alone.
    """
    try:
        names = os.listdir(runs)
    except OSError:
        return []
    tokens = {found[1]: found[2] for found in map(TOKEN.fullmatch, names) if found}
    cleared = []
    for lock in abandoned(Path(runs, f".lock-{token}") for token in sorted(tokens)):
        token = lock.path.name.removeprefix(".lock-")
        if _clear(Path(runs), token, tokens[token]):
            cleared.append(tokens[token])
    return cleared


def _clear(runs: Path, token: str, name: str) -> bool:
    """Clear what a token stands for; whether there was anything."""
    staging, replaced, final = runs / f".staging-{token}", runs / f".replaced-{token}", runs / name
    left = staging.exists() or replaced.exists()
    with contextlib.suppress(OSError):
        if replaced.exists() and not final.exists():
            _finish(staging, replaced, final)
    remove_folder(replaced)
    remove_folder(staging)
    return left


def _finish(staging: Path, replaced: Path, final: Path) -> None:
    """Give the name to the new run if it is whole, else back to the one that had it."""
    for whole in (staging, replaced):
        if _holds(whole):
            whole.rename(final)
            return


def _holds(folder: Path) -> bool:
    try:
        verify(folder)
    except (LabError, OSError):
        return False
    return True


def checked_name(name: str) -> str:
    """Return a name that a run folder, or a part of its name, can have; BadInput for another."""
    if NAME.fullmatch(name) and name != STUDIES:
        return name
    raise BadInput(
        f"{name[:80]!r} cannot name a run folder; use letters, digits and . _ + - only, 200 at "
        "most, beginning with a letter or digit"
    )


def _fix_modes(folder: Path) -> None:
    """0755 and 0644 throughout, so that the same run is the same whoever's umask made it."""
    folder.chmod(0o755)
    with os.scandir(folder) as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False):
                _fix_modes(Path(entry.path))
            elif entry.is_file(follow_symlinks=False):
                Path(entry.path).chmod(0o644)


def _to_disk(folder: Path) -> None:
    for at, folders, files in os.walk(folder):
        for name in (*files, *folders, "."):
            _fsync(Path(at, name))


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _give_name(staging: Path, final: Path, replaced: Path) -> None:
    """Rename staging to its final name; a run that is there is renamed away first.

    Another writer may be giving the same name at the same time, so each rename may find that the
    other was faster, and is then tried once more.
    """
    while True:
        try:
            os.rename(staging, final)
            break
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        remove_folder(replaced)
        with contextlib.suppress(FileNotFoundError):
            os.rename(final, replaced)
    _fsync(final.parent)
    remove_folder(replaced)
