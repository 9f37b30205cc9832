"""Copies of files in the cache, identified by content: created once, verified before each use, and
replaced if damaged.

A copy is stored under the digest of its files, and compiled for an interpreter. Compiled files may
differ from one compilation to the next although they do the same, so they are not part of the
digest. A list of all files with their digests is stored next to the copy, which is verified
against it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from labs.drive.record.disk import cache, clear_folders, owned_folder, remove_folder
from labs.errors import Missing, RunFailed

Content = Path | bytes
"""The content of a file, or the path of a file with that content."""
COPY, LIST = "copy", "files.json"
MAKING = ".making-"
KEPT_S = 7 * 24 * 3600.0


def content_digest(content: Content) -> str:
    """The sha256 of a file's content; a file is read again only if it changed."""
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    # Every change of a file updates its ctime, which cannot be set to a chosen value.
    about = os.stat(content)
    return _file_digest(str(content), about.st_size, about.st_mtime_ns, about.st_ctime_ns)


@functools.lru_cache(maxsize=65536)
def _file_digest(path: str, size: int, changed_ns: int, altered_ns: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_digest(files: Mapping[str, Content]) -> str:
    """The sha256 of every file's name and content."""
    total = hashlib.sha256()
    for name, content in sorted(files.items()):
        total.update(f"{name}\0{content_digest(content)}\0".encode())
    return total.hexdigest()


def kept_copy(
    kind: str,
    files: Mapping[str, Content],
    interpreter: Path,
    *,
    links: Mapping[str, str] | None = None,
    folders: tuple[str, ...] = (),
) -> Path:
    """The folder of the cache that contains these files (by their paths in it), compiled.

    `kind` is the folder of such copies in the cache; `links` are symbolic links by path, `folders`
    are empty folders. A copy that has been changed is replaced. Missing if the cache is not
    writable.
    """
    compiler = hashlib.sha256(str(interpreter.resolve()).encode()).hexdigest()[:8]
    kept = cache() / kind / f"{files_digest(files)}-{compiler}"
    wanted = {name: content_digest(content) for name, content in files.items()}
    # Marked as used before it is examined, so that no other process clears it.
    with contextlib.suppress(OSError):
        os.utime(kept / LIST)
    try:
        _clear(kept.parent)
        if not _is_whole(kept, wanted):
            kept.parent.mkdir(parents=True, exist_ok=True)
            with owned_folder(MAKING, kept.parent) as making:
                made = making / "made"
                _make(made, files, links or {}, folders, interpreter)
                if kept.exists() and not _is_whole(kept, wanted):
                    kept.rename(making / "damaged")
                with contextlib.suppress(OSError):  # another process was faster
                    made.rename(kept)
    except OSError as error:
        raise Missing(
            f"cannot write to {kept.parent} ({error.strerror}). "
            "Set XDG_CACHE_HOME to another folder"
        ) from None
    return kept / COPY


def check(copy: Path) -> None:
    """RunFailed, naming a file, if a copy has been changed: a run may have used that file."""
    try:
        listed = json.loads((copy.parent / LIST).read_text())
        found = _listed(copy)
        names = [name for name in {**listed, **found} if listed.get(name) != found.get(name)]
    except (OSError, ValueError, RecursionError):
        names = [""]
    if names:
        raise RunFailed(
            f"{copy / min(names)} was changed during a run, so the run was discarded. Run it again"
        )


def _clear(where: Path) -> None:
    """Remove what killed processes left unfinished, and copies that were not used for a week."""
    clear_folders(MAKING, where)
    for kept in where.glob("[!.]*"):
        with contextlib.suppress(OSError):
            listed = kept / LIST
            used_s = (listed if listed.exists() else kept).stat().st_mtime
            if time.time() - used_s > KEPT_S:
                remove_folder(kept)


def _make(
    made: Path,
    files: Mapping[str, Content],
    links: Mapping[str, str],
    folders: tuple[str, ...],
    interpreter: Path,
) -> None:
    """Copy the files, compile them (unchecked, so that nothing is compiled again) and list them."""
    copy = made / COPY
    for folder in folders:
        (copy / folder).mkdir(parents=True, exist_ok=True)
    for name, target in links.items():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).symlink_to(target)
    for name, content in files.items():
        path = copy / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            shutil.copyfile(content, path)
            path.chmod(content.stat().st_mode & 0o755 | 0o644)
    _compile(copy, interpreter)
    (made / LIST).write_text(json.dumps(_listed(copy), indent=0))


def _compile(copy: Path, interpreter: Path) -> None:
    """Compile the modules of a copy; RunFailed, with what the interpreter says, if it cannot."""
    words = ("-I", "-m", "compileall", "-q", "-s", str(copy), "-p", "/")
    said = ""
    for workers in ("0", "1"):  # several at once need semaphores, which need a writable /dev/shm
        done = subprocess.run(
            (interpreter, *words, "-j", workers, "--invalidation-mode", "unchecked-hash", copy),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if not done.returncode:
            return
        said = " ".join(done.stdout.split()) or f"exit code {done.returncode}"
    raise RunFailed(f"{interpreter} cannot compile the code of a run: {said}")


def _is_whole(kept: Path, wanted: Mapping[str, str]) -> bool:
    """Whether a copy exists and is unchanged, without missing or additional files."""
    try:
        listed = json.loads((kept / LIST).read_text())
        found = _listed(kept / COPY)
    except (OSError, ValueError, RecursionError):
        return False
    return bool(found == listed) and all(found.get(name) == one for name, one in wanted.items())


def _listed(copy: Path) -> dict[str, str]:
    """The files and links of a copy by their paths in it: digests of files, targets of links."""
    found = {}
    waiting = [("", str(copy))]
    while waiting:
        below, folder = waiting.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                name = below + entry.name
                if entry.is_symlink():
                    found[name] = f"-> {os.readlink(entry.path)}"
                elif entry.is_dir():
                    waiting.append((f"{name}/", entry.path))
                elif not entry.is_file():
                    found[name] = "neither a file nor a folder"
                else:
                    about = entry.stat()
                    found[name] = _file_digest(
                        entry.path, about.st_size, about.st_mtime_ns, about.st_ctime_ns
                    )
    return found
