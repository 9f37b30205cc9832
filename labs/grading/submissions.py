"""What a class handed in: whose file it is, and what cannot be read.

Nothing is unpacked, and no link is followed: archives and links are told.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from labs.drive.record.seal import RUN, SEAL
from labs.errors import BadInput
from labs.read.display.format import printable

NOTEBOOK = ".ipynb"
ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".xz", ".bz2", ".zst", ".7z", ".rar")
MOST_BYTES = 32 << 20
"""Of a notebook in a class. With all its charts one has 5 MB."""
MOODLE = re.compile(
    r"(?P<name>.+)_(?P<number>\d+)_assignsubmission_[a-z]+_?(?P<file>.*)", re.DOTALL
)
"""A folder, or a file, in the archive of all submissions of a Moodle assignment
(mod/assign/classes/downloader.php: full name, number of the participant, plugin)."""
INBOUND = re.compile(r"(?P<name>[^+]+)\+[^+]+\+\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^+]*(\+.*)?")
"""A submission in nbgrader's exchange (nbgrader/exchange/default/submit.py)."""
SUBMITTED = "submitted"
"""The folder of a course with nbgrader: submitted/STUDENT/ASSIGNMENT/
(nbgrader/exchange/default/collect.py)."""


@dataclass(frozen=True)
class Submission:
    """A file that a student handed in; `problem` says why it is not read."""

    student: str
    path: Path
    problem: str = ""


def submissions(root: Path) -> list[Submission]:
    """The notebooks in a folder and its folders, and what was handed in instead; a single notebook
    is one. BadInput for a folder without any."""
    if not root.is_dir():
        return [Submission(root.stem, root)]
    handed_in = [_submission(path, root) for path in _files(root)]
    if not handed_in:
        raise BadInput(f"{root} has no notebooks. Name a folder with .ipynb files")
    return handed_in


def _files(root: Path) -> Iterator[Path]:
    """Notebooks, archives and links by name, without Jupyter's checkpoints and what runs hold."""
    for folder, below, names in os.walk(root):
        below[:] = sorted(name for name in below if not name.startswith((".", "__MACOSX")))
        if not {RUN, SEAL}.isdisjoint(names):
            below.clear()
            continue
        here = Path(folder)
        for name in sorted(names):
            wanted = name.lower().endswith((NOTEBOOK, *ARCHIVES))
            if wanted and not name.startswith("."):
                yield here / name
        yield from (here / name for name in below if (here / name).is_symlink())


def _submission(path: Path, root: Path) -> Submission:
    if path.is_symlink():
        problem = "a symbolic link, which is not followed. Ask for the file itself"
    elif not path.name.endswith(NOTEBOOK):
        kind = (
            "an archive"
            if path.name.lower().endswith(ARCHIVES)
            else "a file with its extension in capitals"
        )
        problem = f"{kind}, which is not opened. Unpack or rename it, and repeat the command"
    elif not path.is_file():
        problem = "not a regular file, which is not read. Ask for the notebook itself"
    elif (size := path.stat().st_size) > MOST_BYTES:
        problem = (
            f"too large: {size >> 20} MiB, of at most {MOST_BYTES >> 20}. "
            "Clear its outputs in Jupyter, save it, and repeat the command"
        )
    else:
        problem = ""
    return Submission(whose(path.relative_to(root)), path, problem and f"It is {problem}")


def whose(inside: Path) -> str:
    """The student of a file in a folder of submissions, by the first folder, or by the name of the
    file; with the number that Moodle gave them."""
    parts = inside.parts
    if len(parts) > 1 and parts[0] == SUBMITTED:
        parts = parts[1:]
    first = printable(parts[0] if len(parts) > 1 else Path(parts[-1]).stem)
    if match := MOODLE.fullmatch(first):
        return f"{match['name']} ({match['number']})"
    match = INBOUND.fullmatch(first)
    return match["name"] if match else first
