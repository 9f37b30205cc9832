"""The code that a run can execute: found by following imports, hashed, and copied for the run.

A run starts at `labs.drive.guest`, which loads a testbed and an experiment. The run can execute
only what these import, directly or indirectly; the copy contains nothing else, so nothing else can
be loaded. Programs that a run starts on its hosts are named in the code by their file
(`"probe.py"`; a program in C by its folder: `"epoll_server.c"` names all sources of the folder
`epoll_server`), and are included as well. So is the code that boots a virtual run, although the
guest does not load it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from labs.drive.kernel.kept_copy import Kept, file, kept_copy
from labs.drive.record.sources import file_of, names_in, with_packages

PACKAGE = Path(__file__).resolve().parent.parent
ENTRY = "labs.drive.guest"
# Modules that act on a run from outside.
OUTSIDE = {"virtual": ("labs.drive.kernel.boot",)}
PROGRAMS = "labs.drive.programs"
# Only modules with these prefixes are included. The others, such as those with which a user's own
# lab reads its results, have no place in a run.
DRIVING = ("labs.drive.", "labs.experiments.", "labs.errors.")
OWN_LAB = "own_lab"
"""The name of the module that contains a user's own lab in a run."""

Code = Mapping[str, bytes]
"""Files by their path in the copy."""


def code_of(
    testbed: str, experiment: str, own_lab: Path | None = None, package: Path = PACKAGE
) -> Code:
    """The files of a run of `experiment` (a module) on `testbed` (its name).

    `own_lab` is the file of a user's own lab, which then replaces the experiment.
    `labs/__init__.py`, the interface for notebooks, is empty in a run.
    """
    files: dict[str, bytes] = {"labs/__init__.py": b""}
    waiting = [ENTRY, f"labs.drive.testbed.{testbed}", *OUTSIDE.get(testbed, ())]
    if own_lab is None:
        waiting += with_packages(experiment)
    else:
        files[f"{OWN_LAB}.py"] = own_lab.read_bytes()
        waiting += _used(files[f"{OWN_LAB}.py"])
    return _with_imports(files, waiting, package)


def _with_imports(files: dict[str, bytes], waiting: list[str], package: Path) -> Code:
    """The files of `files` and of the modules in `waiting`, and of all modules that these use."""
    seen: set[str] = set()
    while waiting:
        module = waiting.pop()
        if module in seen or not f"{module}.".startswith(DRIVING):
            continue
        seen.add(module)
        path = file_of(module, package)
        name = "" if path is None else str(path.relative_to(package.parent))
        if path is None or name in files:
            continue
        files[name] = path.read_bytes()
        waiting += _used(files[name])
        for source in _sources(files[name], package):
            files[str(source.relative_to(package.parent))] = source.read_bytes()
    return dict(sorted(files.items()))


def digest(code: Code) -> str:
    """The SHA-256 of all files' names and contents."""
    total = hashlib.sha256()
    for name, content in sorted(code.items()):
        total.update(f"{name}\0{len(content)}\0".encode() + content)
    return total.hexdigest()


def _used(content: bytes) -> tuple[str, ...]:
    """The modules of `labs` that a file may load or start, each with its parent packages."""
    names = [name for name in names_in(content)[0] if name.split(".")[0] == "labs"]
    names += [f"{PROGRAMS}.{program}" for program in _programs(content, ".py")]
    return tuple(dict.fromkeys(module for name in names for module in with_packages(name)))


def _sources(content: bytes, package: Path) -> tuple[Path, ...]:
    """The sources of the programs in C that a file may start."""
    folders = [package / "drive" / "programs" / name for name in _programs(content, ".c")]
    return tuple(path for folder in folders for path in sorted(folder.glob("*.[ch]")))


def _programs(content: bytes, suffix: str) -> list[str]:
    """The programs that a file names by their files, such as `probe` for "probe.py"."""
    programs = [text.removesuffix(suffix) for text in names_in(content)[1] if text.endswith(suffix)]
    return [name for name in programs if name.isidentifier()]


def copied(code: Code, interpreter: Path) -> Kept:
    """The copy of a run's code, compiled for `interpreter`."""
    return kept_copy("code", {name: file(text) for name, text in code.items()}, interpreter)
