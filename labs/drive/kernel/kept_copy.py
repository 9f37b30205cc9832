"""Folders of files that are identified by content: made once, verified before and after each use.

A copy is named after its listing: for each file the digest and the mode, for each link the target,
for each folder the mode. Compiling adds files whose bytes differ from one time to the next although
they do the same, so they are not part of the name; the whole listing is stored beside the copy.
Modes and times are constant, so that nothing of the host shows in them.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import json
import os
import re
import stat
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from labs.drive.record.cache import cache, clear_kept, private_folder
from labs.drive.record.disk import owned_folder
from labs.drive.record.removal import is_own_folder
from labs.errors import Missing, RunFailed

Content = Path | bytes
"""The content of a file, or the file that has it."""
Interpreter = tuple[Path | str, ...]
"""How a Python interpreter is started; the last word is its file."""
COPY, LIST = "copy", "files.json"
NAME = re.compile(r"[0-9a-f]{64}-[0-9a-f]{8}")
MAKING = ".making-"
ATTEMPTS = 3
READ_BYTES = 1 << 16
MODE = "644"
EXECUTABLE = "755"
CHANGED_S = 1_750_000_000
"""When every file of a copy was changed, for whoever looks; any constant will do."""


@dataclass(frozen=True)
class File:
    """A file of a copy: its content, the digest that this had when the copy was planned, and
    whether it can be executed."""

    content: Content
    digest: str
    executable: bool = False


@dataclass(frozen=True)
class Kept:
    """A copy in the cache, and each of its files and folders as it was before it was used."""

    folder: Path
    before: Mapping[str, tuple[int, ...]]


def file(content: Content, executable: bool = False) -> File:
    """A file of a copy with the content that it has now; Missing if that cannot be read."""
    return File(content, content_digest(content), executable)


def content_digest(content: Content) -> str:
    """The sha256 of a content; a file is read again only if it changed.

    Missing if it cannot be read.
    """
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    try:
        about = os.stat(content)
        # A change moves the ctime, which nobody can set.
        return _file_digest(str(content), about.st_size, about.st_mtime_ns, about.st_ctime_ns)
    except OSError as error:
        raise Missing(
            f"{content}, which runs need, cannot be read ({error.strerror}); install it again"
        ) from None


@functools.lru_cache(maxsize=65536)
def _file_digest(path: str, size: int, changed_ns: int, altered_ns: int) -> str:
    total = hashlib.sha256()
    # hashlib.file_digest would allocate 256 KiB for each of some hundred small files.
    with open(path, "rb", buffering=0) as opened:
        while part := opened.read(READ_BYTES):
            total.update(part)
    return total.hexdigest()


def listing(
    files: Mapping[str, File], links: Mapping[str, str], folders: tuple[str, ...]
) -> dict[str, str]:
    """What a copy consists of, by path: what is compared, and digested for its name."""
    entries = {name: f"-> {target}" for name, target in links.items()}
    for name in (*files, *links, *folders):
        folder = name.rpartition("/")[0]
        while folder and folder not in entries:
            entries[folder] = f"folder {EXECUTABLE}"
            folder = folder.rpartition("/")[0]
    entries |= dict.fromkeys(folders, f"folder {EXECUTABLE}")
    for name, file in files.items():
        entries[name] = f"{file.digest} {EXECUTABLE if file.executable else MODE}"
    return dict(sorted(entries.items()))


def listing_digest(listed: Mapping[str, str]) -> str:
    """The sha256 of a listing."""
    return hashlib.sha256(json.dumps(sorted(listed.items())).encode()).hexdigest()


def kept_copy(
    kind: str,
    files: Mapping[str, File],
    interpreter: Interpreter,
    *,
    links: Mapping[str, str] | None = None,
    folders: tuple[str, ...] = (),
) -> Kept:
    """The copy in the cache that holds these files (by their paths in it), compiled.

    `kind` is the folder of such copies in the cache; `links` are symbolic links by path, `folders`
    are empty ones. A copy that is not as it was made is made again. Missing if the cache cannot be
    written; RunFailed if a file is not what it was when its digest was taken.
    """
    wanted = listing(files, links or {}, folders)
    compiler = content_digest(Path(interpreter[-1]))[:8]
    try:
        where = private_folder(kind)
    except OSError as error:
        raise _cannot_be_written(cache() / kind, error) from None
    kept = where / f"{listing_digest(wanted)}-{compiler}"
    with contextlib.suppress(OSError):
        os.utime(kept / LIST)  # in use: another process that clears old copies leaves it
    clear_kept(kept.parent, MAKING, NAME, LIST, "copies")
    for _ in range(ATTEMPTS):
        if (before := _as_made(kept, wanted)) is not None:
            return Kept(kept / COPY, before)
        try:
            with owned_folder(MAKING, kept.parent) as making:
                made = making / "made"
                listed = _make(made / COPY, files, links or {}, wanted, interpreter)
                (made / LIST).write_text(json.dumps(listed, indent=0))
                _put(made, kept, making / "damaged", wanted)
        except OSError as error:
            raise _cannot_be_written(where, error) from None
    raise RunFailed(
        f"{kept} is changed again and again by another program; stop that and run again"
    )


def _cannot_be_written(folder: Path, error: OSError) -> Missing:
    return Missing(
        f"{folder} cannot be written ({error.strerror}); name another folder in XDG_CACHE_HOME"
    )


def check(kept: Kept) -> None:
    """RunFailed, naming a file, if a copy was changed since it was verified: what used it
    meanwhile may have read something else, even if it was mended."""
    try:
        now = _states(kept.folder)
    except OSError:
        now = {}
    names = [name for name in {**kept.before, **now} if kept.before.get(name) != now.get(name)]
    if names:
        raise RunFailed(
            f"{kept.folder / min(names)} was changed while a run used it: the run is not kept, "
            "run again"
        )


def _as_made(kept: Path, wanted: Mapping[str, str]) -> Mapping[str, tuple[int, ...]] | None:
    """The state of each file of a copy, or None if it is not there or not as it was made."""
    try:
        if not is_own_folder(kept):
            return None
        listed = json.loads((kept / LIST).read_text())
        scanned, states = _scanned(kept / COPY)
        whole = scanned == listed and all(
            scanned.get(name) == text for name, text in wanted.items()
        )
        return states if whole else None
    except (OSError, ValueError, RecursionError, Missing):
        return None


def _put(made: Path, kept: Path, aside: Path, wanted: Mapping[str, str]) -> None:
    """Give a new copy its name, in place of a damaged one; another process may be faster."""
    if kept.exists() and _as_made(kept, wanted) is None:
        with contextlib.suppress(FileNotFoundError):
            kept.rename(aside)
    try:
        made.rename(kept)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise


def _make(
    copy: Path,
    files: Mapping[str, File],
    links: Mapping[str, str],
    wanted: Mapping[str, str],
    interpreter: Interpreter,
) -> dict[str, str]:
    """Write the files, compile them, and give all of them the same modes and times; the copy in
    the form of `listing`, with what was compiled."""
    copy.mkdir(parents=True)
    for name, text in wanted.items():
        if text.startswith("folder "):
            (copy / name).mkdir(parents=True, exist_ok=True)
    for name, target in links.items():
        (copy / name).symlink_to(target)
    for name, file in files.items():
        (copy / name).write_bytes(_read(file.content))
    _compile(copy, interpreter)
    for path in (copy, *copy.rglob("*")):
        if not path.is_symlink():
            of_files = wanted.get(str(path.relative_to(copy)), "").endswith(EXECUTABLE)
            path.chmod(0o755 if path.is_dir() or of_files else 0o644)
        os.utime(path, (CHANGED_S, CHANGED_S), follow_symlinks=False)
    scanned, _ = _scanned(copy)
    for name, text in wanted.items():
        if scanned.get(name) != text:
            raise RunFailed(f"{name} was changed while it was copied for a run; run again")
    return scanned


def _read(content: Content) -> bytes:
    if isinstance(content, bytes):
        return content
    try:
        return content.read_bytes()
    except OSError as error:
        raise Missing(
            f"{content}, which runs need, cannot be read ({error.strerror}); install it again"
        ) from None


def _compile(copy: Path, interpreter: Interpreter) -> None:
    """Compile by content, not by time, so that nothing is compiled again inside."""
    # The second time with one process: several need shared memory, which is not everywhere.
    for processes in ("0", "1"):
        words = ("-I", "-S", "-m", "compileall", "-q", "-s", str(copy), "-p", "/", "-j", processes)
        try:
            done = subprocess.run(
                (*interpreter, *words, "--invalidation-mode", "unchecked-hash", str(copy)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                check=False,
            )
        except OSError as error:
            raise Missing(f"{interpreter[-1]} cannot be started ({error.strerror})") from None
        if not done.returncode:
            return
    reason = " ".join(done.stdout.split()) or f"exit code {done.returncode}"
    raise RunFailed(f"{interpreter[-1]} cannot compile the code of a run: {reason}")


def _entries(copy: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """All that is below a folder, by its path there."""
    waiting = [("", str(copy))]
    while waiting:
        below, folder = waiting.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                yield below + entry.name, entry
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((f"{below}{entry.name}/", entry.path))


def _scanned(copy: Path) -> tuple[dict[str, str], dict[str, tuple[int, ...]]]:
    """A copy as it is, in the form of `listing`, and the state of each entry, taken before it was
    read, so that `check` finds a later change."""
    entries, states = {}, {".": _state(os.stat(copy))}
    for name, entry in _entries(copy):
        about = entry.stat(follow_symlinks=False)
        states[name] = _state(about)
        mode = f"{stat.S_IMODE(about.st_mode):o}"
        if stat.S_ISLNK(about.st_mode):
            entries[name] = f"-> {os.readlink(entry.path)}"
        elif stat.S_ISDIR(about.st_mode):
            entries[name] = f"folder {mode}"
        elif stat.S_ISREG(about.st_mode):
            version = (about.st_size, about.st_mtime_ns, about.st_ctime_ns)
            entries[name] = f"{_file_digest(entry.path, *version)} {mode}"
        else:
            entries[name] = "neither a file nor a folder"
    return entries, states


def _states(copy: Path) -> dict[str, tuple[int, ...]]:
    """What changes of each file and folder if it is changed or replaced."""
    states = {".": _state(os.stat(copy))}
    for name, entry in _entries(copy):
        states[name] = _state(entry.stat(follow_symlinks=False))
    return states


def _state(about: os.stat_result) -> tuple[int, ...]:
    return (about.st_dev, about.st_ino, about.st_mode, about.st_size, about.st_ctime_ns)
