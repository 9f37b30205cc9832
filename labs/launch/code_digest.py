"""The code that a run can execute: found, hashed, and copied for the run.

It consists of the folder `labs/guest`; of the lab's `experiment.py` and the modules of its lab that
this imports; and, for a run on real machines, of the modules that reach them. The copy contains
nothing else, so nothing else can be loaded. A run starts at `labs.guest.entry`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from labs.drive.kernel.kept_copy import Interpreter, Kept, file, kept_copy
from labs.drive.record.sources import file_of, names_in, with_packages
from labs.drive.testbeds import TESTBEDS

PACKAGE = Path(__file__).resolve().parent.parent
SOURCES = {".py", ".c", ".h"}
# Only modules with these prefixes are included. The others, such as those with which a user's own
# lab reads its results, have no place in a run.
DRIVING = ("labs.guest.", "labs.drive.", "labs.experiments.", "labs.errors.")
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
    inside = (path for path in (package / "guest").rglob("*") if path.suffix in SOURCES)
    files = {str(path.relative_to(package.parent)): path.read_bytes() for path in inside}
    files["labs/__init__.py"] = b""
    waiting = ["labs.errors", *with_packages(TESTBEDS[testbed].module)]
    if own_lab is None:
        waiting += with_packages(experiment)
    else:
        files[f"{OWN_LAB}.py"] = own_lab.read_bytes()
        waiting += imported_by(files[f"{OWN_LAB}.py"])
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
        waiting += imported_by(files[name])
    return dict(sorted(files.items()))


def digest(code: Code) -> str:
    """The SHA-256 of all files' names and contents."""
    total = hashlib.sha256()
    for name, content in sorted(code.items()):
        total.update(f"{name}\0{len(content)}\0".encode() + content)
    return total.hexdigest()


def imported_by(content: bytes) -> tuple[str, ...]:
    """The modules of `labs` that a file may load, each with its parent packages."""
    names = [name for name in names_in(content)[0] if name.split(".")[0] == "labs"]
    return tuple(dict.fromkeys(module for name in names for module in with_packages(name)))


def copied(code: Code, interpreter: Interpreter) -> Kept:
    """The copy of a run's code, compiled for `interpreter`."""
    return kept_copy("code", {name: file(text) for name, text in code.items()}, interpreter)
