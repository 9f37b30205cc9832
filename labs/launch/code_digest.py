"""The code that a run can execute: found from its imports, digested, and copied for the run.

A run starts at `labs.drive.guest`, which loads a testbed and an experiment. What these import, and
what that imports in turn, is all that the run can execute; the copy holds nothing else, so nothing
else can be loaded. Programs that a run starts on its hosts are named in the code by their file
(`"probe.py"`), and are part of it too. So is what boots a virtual run, although the guest does not
load it.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from labs.drive.imports import imported, programs
from labs.drive.record.disk import cache, clear_folders, owned_folder, remove_folder
from labs.errors import Missing, RunFailed

PACKAGE = Path(__file__).resolve().parent.parent
ENTRY = "labs.drive.guest"
# What acts on a run from outside.
OUTSIDE = {"virtual": ("labs.drive.kernel.boot",)}
PROGRAMS = "labs.drive.programs"
# What has no place in a run, such as what a reader's own lab uses to read its results.
DRIVING = ("labs.drive.", "labs.experiments.", "labs.errors.")
OWN_LAB = "own_lab"
"""The module that a reader's own lab is in a run."""
COPY = "copy-"
KEPT_S = 7 * 24 * 3600.0

Code = Mapping[str, bytes]
"""Files by their path in the copy."""


def code_of(
    testbed: str, experiment: str, own_lab: Path | None = None, package: Path = PACKAGE
) -> Code:
    """The files of a run on `testbed` (its name) of `experiment` (its module).

    `own_lab` is a reader's own lab, one file, which then is the experiment. The face of the
    package, `labs/__init__.py`, is empty in a run: it serves notebooks.
    """
    found: dict[str, bytes] = {"labs/__init__.py": b""}
    waiting = [ENTRY, f"labs.drive.testbed.{testbed}", *OUTSIDE.get(testbed, ())]
    if own_lab is None:
        waiting += _with_packages(experiment)
    else:
        found[f"{OWN_LAB}.py"] = own_lab.read_bytes()
        waiting += _used(found[f"{OWN_LAB}.py"])
    while waiting:
        module = waiting.pop()
        path = _file(module, package) if f"{module}.".startswith(DRIVING) else None
        name = "" if path is None else str(path.relative_to(package.parent))
        if path is None or name in found:
            continue
        found[name] = path.read_bytes()
        waiting += _used(found[name])
    return dict(sorted(found.items()))


def digest(code: Code) -> str:
    """The sha256 of every file's name and content."""
    total = hashlib.sha256()
    for name, content in sorted(code.items()):
        total.update(f"{name}\0{len(content)}\0".encode() + content)
    return total.hexdigest()


def _file(module: str, package: Path) -> Path | None:
    """The file of a module of `labs`; None for a name that is not a module, such as a function."""
    path = package.parent / module.replace(".", "/")
    if path.is_dir():
        return path / "__init__.py" if path != package else None
    path = path.with_suffix(".py")
    return path if path.is_file() else None


@functools.lru_cache(maxsize=512)
def _used(content: bytes) -> tuple[str, ...]:
    """The modules of `labs` that a file may load or start, each with the packages around it."""
    tree = ast.parse(content)
    names = [name for name in imported(tree) if name.split(".")[0] == "labs"]
    names += [f"{PROGRAMS}.{program}" for program in programs(tree)]
    return tuple(dict.fromkeys(one for name in names for one in _with_packages(name)))


def _with_packages(module: str) -> tuple[str, ...]:
    """A module and the packages around it, which are loaded before it."""
    return tuple(module.rsplit(".", count)[0] for count in range(module.count(".") + 1))


@dataclass(frozen=True)
class Copied:
    """A folder with the code and what it was compiled to; `files` are as they were written."""

    folder: Path
    files: Code

    def check(self) -> None:
        """RunFailed if a file of the folder was changed, or one was added or is gone."""
        found = _files(self.folder)
        different = {
            name
            for name in (*found, *self.files)
            if found.get(name) is None or found[name] != self.files.get(name)
        }
        if different:
            raise RunFailed(
                f"the code of this run was changed while it was performed "
                f"({self.folder / min(different)}), so the run is not kept; run again"
            )


@contextlib.contextmanager
def copied(code: Code, interpreter: Path) -> Iterator[Copied]:
    """Copy the code and compile it for `interpreter`; the copy is removed at the end.

    Each launch has a copy of its own: one that was kept would have to be trusted by its name.
    Missing if the cache cannot be written.
    """
    where = cache() / "code"
    with contextlib.ExitStack() as stack:
        try:
            where.mkdir(parents=True, exist_ok=True)
            _clear_kept_copies(where)
            folder = stack.enter_context(owned_folder(COPY, where)) / "code"
            for name, content in code.items():
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        except OSError as error:
            raise Missing(
                f"{where} cannot be written ({error.strerror}). "
                "Name another folder in XDG_CACHE_HOME"
            ) from None
        _compile(folder, interpreter)
        yield Copied(folder, {**_compiled(folder), **code})


def _compile(folder: Path, interpreter: Path) -> None:
    """Compile every module, so that the guest, which may not write here, need not do so each time.

    RunFailed if one cannot be compiled: a guest that compiles leaves other bytes.
    """
    # By content, not by time, so that the guest takes it as it is.
    words = ("-I", "-S", "-m", "compileall", "-q", "-s", str(folder))
    done = subprocess.run(
        (interpreter, *words, "--invalidation-mode", "unchecked-hash", str(folder)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        said = " ".join(done.stdout.split()) or f"exit code {done.returncode}"
        raise RunFailed(f"{interpreter} cannot compile the code of a run: {said}")


def _compiled(folder: Path) -> Code:
    return {name: content for name, content in _files(folder).items() if name.endswith(".pyc")}


def _files(folder: Path) -> Code:
    """The files below a folder; what is not a plain file has no content that could be right."""
    found = {}
    for at, folders, files in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(at, name))]
        for path in (Path(at, name) for name in (*files, *links)):
            plain = path.is_file() and not path.is_symlink()
            found[str(path.relative_to(folder))] = path.read_bytes() if plain else b"not a file"
    return found


def _clear_kept_copies(where: Path) -> None:
    """Remove the copies that earlier versions kept; those of the last days may be in use."""
    for folder in where.glob("[!.]*"):
        if folder.name.startswith(COPY):
            continue
        with contextlib.suppress(OSError):
            if time.time() - folder.lstat().st_mtime > KEPT_S:
                remove_folder(folder)
    clear_folders(".making-", where)
