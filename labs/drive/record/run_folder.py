"""A run folder from its first file to its name: staged, sealed, renamed in one step.

While a run is made, three names in RUNS belong to it (token = NAME-PID-N):

    .lock-TOKEN      locked while the owner lives (`record/lock.py`); it names the two folders
    .staging-TOKEN   the folder that becomes RUNS/NAME by one rename
    .replaced-TOKEN  the run of that name that existed before, for the time of two renames

A kill at any point leaves either a staging folder, which `clear_stale` removes, or an interrupted
replacement, which it finishes: forward if the new run is whole, else back. Both folders are removed
only if the lock names them. A run that was changed after it was sealed may contain somebody's own
work: it is not removed but kept as `.changed-TOKEN`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from labs.drive.record.disk import written_to
from labs.drive.record.lock import Lock, abandoned, numbered
from labs.drive.record.removal import Made, is_made, is_own_folder, remove_folder, say, say_removed
from labs.drive.record.seal import HOST, RUN, SEAL, Seal, check_contents, compute, pretty, verify
from labs.errors import BadInput, LabError, RunFailed

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")
LOCK_NAME = re.compile(rf"\.lock-(({NAME.pattern})-\d+-\d+)")
STUDIES = "studies"


def run_name(lab: str, condition: str, key: str) -> str:
    """Return the name of a run's folder: LAB-CONDITION-the first 12 digits of its key."""
    return checked_name(f"{lab}-{condition}-{key[:12]}")


class Staging(contextlib.AbstractContextManager["Staging"]):
    """A run folder in the making; a context manager that discards it unless it was sealed."""

    def __init__(self, runs: Path, name: str) -> None:
        """Make RUNS (if need be) and a staging folder for the run `name` in it, and lock it.

        Raises BadInput for a name that is not a folder name or a RUNS that cannot be written.
        """
        self.runs, self.name = Path(runs), checked_name(name)
        with written_to(self.runs):
            self.runs.mkdir(parents=True, exist_ok=True)
            self._lock = Lock.new(numbered(self.runs / self.name, ".lock"))
            self._token = self._lock.path.name.removeprefix(".lock-")
            self.folder = self.runs / f".staging-{self._token}"
            try:
                self.folder.mkdir()
                self._made = Made.of(self.folder)
                self._lock.note(staging=self._made)
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

    def check(self) -> None:
        """RunFailed if the folder contains anything but what a run may write; before it is read.

        Allowed are folders and regular files with one name, and none of the two that are written
        when it is sealed.
        """
        self._check_place()
        check_contents(self.folder)

    def seal(self, host: Mapping[str, object], hashed: Seal | None = None) -> Path:
        """Seal the folder, write `host` as host.json, give the run its name; return its path.

        An existing run of that name is replaced in one step. `hashed` is the seal of files that
        were hashed already; `self.hashed` is that of the sealed run. Raises RunFailed if the folder
        is not as `check` requires, Missing if the disk is full, BadInput if the name is taken by
        anything but a run.
        """
        assert self._open, "a staging folder is sealed or discarded once"
        final = self.runs / self.name
        with written_to(self.runs):
            self.check()
            _fix_modes(self.folder)  # a tool may have left a file that its owner cannot read
            self.hashed = hashed or compute(self.folder)
            for name, value in ((SEAL, self.hashed.as_json()), (HOST, host)):
                with (self.folder / name).open("xb") as file:
                    file.write(pretty(value))
            _fix_modes(self.folder)
            _to_disk(self.folder)
            self._check_place()
            _give_name(self.folder, final, self._token, self._lock)
        self.discard()
        return final

    def discard(self) -> None:
        """Remove the staging folder and its lock; a folder that was sealed has left already."""
        if self._open:
            self._open = False
            remove_folder(self.folder, self._made)
            self._lock.release()

    def _check_place(self) -> None:
        """RunFailed if the staging folder is no longer the one that was made."""
        if not is_made(self.folder, self._made):
            raise RunFailed(f"{self.folder} was replaced while the run was performed. Run it again")

    def __exit__(self, *error: object) -> None:
        self.discard()


def clear_stale(runs: Path) -> list[str]:
    """Clear what owners that are gone left in RUNS, and say so; return the names of their runs.

    What belongs to a process that lives, or to another user, is left alone, and so is whatever no
    lock names.
    """
    try:
        names = os.listdir(runs)
    except OSError:
        return []
    cleared = []
    for match in filter(None, map(LOCK_NAME.fullmatch, sorted(names))):
        for lock in abandoned([Path(runs, match[0])]):
            if _clear(Path(runs), match[1], match[2], lock):
                cleared.append(match[2])
                say_removed(f"the unfinished run {match[2]} in {runs}")
    return cleared


def _clear(runs: Path, token: str, name: str, lock: Lock) -> bool:
    """Clear what a lock names; whether there was anything."""
    folders = {what: runs / f".{what}-{token}" for what in ("staging", "replaced")}
    noted = {what: made for what in folders if (made := lock.made(what))}
    left = {folders[what]: made for what, made in noted.items() if is_made(folders[what], made)}
    replaced, final = folders["replaced"], runs / name
    if replaced in left:
        with contextlib.suppress(OSError):
            if not os.path.lexists(final):
                _finish(left, final)
        if left[replaced] != lock.made("unchanged"):
            with contextlib.suppress(FileNotFoundError):
                _keep_if_changed(replaced, final, token)
    for folder, made in left.items():
        remove_folder(folder, made)
    return bool(left)


def _finish(folders: Iterable[Path], final: Path) -> None:
    """Give the name to the new run if it is whole, else back to the one that had it."""
    for whole in filter(_holds, folders):
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
    for at, folders, files in os.walk(folder):
        for names, mode in ((folders, 0o755), (files, 0o644)):
            for name in names:
                Path(at, name).chmod(mode)


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


def _give_name(staging: Path, final: Path, token: str, lock: Lock) -> None:
    """Rename staging to its final name; an existing run is renamed away first.

    Another writer may be giving the same name at the same time, so each rename may find that the
    other was faster, and is then tried once more.
    """
    while True:
        try:
            os.rename(staging, final)
            break
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
        with contextlib.suppress(FileNotFoundError):
            _make_way(final, token, lock)
    _fsync(final.parent)
    _remove_replaced(final, token, lock)


def _make_way(final: Path, token: str, lock: Lock) -> None:
    """Rename an existing run away: to be removed if its seal holds, else to be kept."""
    _remove_replaced(final, token, lock)
    status = final.lstat()  # FileNotFoundError if another writer is giving the name at this moment
    if not is_own_folder(final) or {RUN, SEAL}.isdisjoint(os.listdir(final)):
        if _state(status) != _state(final.lstat()):
            return  # what was judged is gone: another writer renamed it away meanwhile
        raise BadInput(
            f"{final} is not a run of this user, and a run needs its name. Move it elsewhere, or "
            "write to another folder with --into DIR"
        )
    replaced = final.with_name(f".replaced-{token}")
    lock.note(replaced=Made.of(final))
    os.rename(final, replaced)
    made = Made.of(replaced)  # perhaps the run that another writer has put there meanwhile
    lock.note(replaced=made)
    if not _keep_if_changed(replaced, final, token):
        lock.note(unchanged=made)


def _state(about: os.stat_result) -> tuple[int, int, int]:
    """Which folder it is, and when it was last renamed or changed: inodes are used again."""
    return about.st_dev, about.st_ino, about.st_ctime_ns


def _remove_replaced(final: Path, token: str, lock: Lock) -> None:
    if unchanged := lock.made("unchanged"):
        remove_folder(final.with_name(f".replaced-{token}"), unchanged)


def _keep_if_changed(replaced: Path, final: Path, token: str) -> bool:
    """Give a replaced run a name under which it stays, unless its seal holds; whether it did."""
    if _holds(replaced):
        return False
    kept = final.with_name(f".changed-{token}")
    os.rename(replaced, kept)
    say(f"{final} was changed after it was sealed; it is kept as {kept.name}")
    return True
