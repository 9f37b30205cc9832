"""Execute a notebook once per point of a batch, by papermill, several at a time.

An executed notebook is `notebooks/NNNN.ipynb` in the folder of the batch. It has papermill's
metadata and, under `labs`, the identity of its inputs. If the notebook of a point exists and its
inputs are unchanged, it is not executed again. A notebook that stopped at an error is
`NNNN.failed.ipynb`, with the cells up to the error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import nbformat

from labs.drive.parameters.declare import Scalar
from labs.drive.record.disk import write_whole
from labs.drive.record.removal import is_private_file
from labs.drive.record.seal import canonical, digest
from labs.drive.record.stored_files import read_json
from labs.errors import LabError
from labs.publish.execute import execute, open_notebook, side_by_side
from labs.read.notebook_file import MOST_BYTES, NotebookFile

FOLDER = "notebooks"
NOTE = "labs"
EXECUTED_FROM = "executed_from"
EARLIER = "earlier"
STEM = re.compile(r"\d{4,}(\.failed)?")
UNFINISHED = re.compile(r"\.(\d{4,}-\d+|moving-[0-9a-f]{12})\.ipynb")


def executed(folder: Path, number: int) -> Path:
    """The path of the executed notebook of a point."""
    return folder / FOLDER / f"{number:04d}.ipynb"


def failed(folder: Path, number: int) -> Path:
    """The path of the notebook of a point that stopped at an error."""
    return folder / FOLDER / f"{number:04d}.failed.ipynb"


def identity(notebook: NotebookFile, values: Mapping[str, Scalar], keys: Sequence[str]) -> str:
    """The digest of the inputs of an execution: the notebook, the values, and the runs."""
    return digest(canonical([notebook.content, dict(values), sorted(keys)]))


def arrange(folder: Path, wanted: Mapping[int, str]) -> set[int]:
    """Give each executed notebook the number of the point that it belongs to now, by identity;
    the numbers of those that exist.

    Points have other numbers when the plan has changed. Notebooks of no point are kept in
    `notebooks/earlier`. What a killed process left is removed; the folder is the batch's own.
    """
    where = folder / FOLDER
    for left in where.glob(".*"):
        if UNFINISHED.fullmatch(left.name) and is_private_file(left.lstat()):
            left.unlink()
    paths: dict[str, Path] = {}
    for path in sorted(where.glob("*.ipynb")):
        identity = _executed_from(path)
        if identity in wanted.values() and identity not in paths:
            paths[identity] = path.rename(path.with_name(f".moving-{identity[:12]}.ipynb"))
        elif STEM.fullmatch(path.stem):
            (where / EARLIER).mkdir(exist_ok=True)
            path.replace(where / EARLIER / path.name)
    for number, identity in wanted.items():
        if identity in paths:
            paths[identity].replace(executed(folder, number))
    return {number for number, identity in wanted.items() if identity in paths}


def _executed_from(path: Path) -> str:
    """What a notebook was executed from; empty for one that was not executed to its end."""
    try:
        metadata: Any = read_json(path, most_bytes=MOST_BYTES)["metadata"]
        return str(metadata[NOTE][EXECUTED_FROM])
    except (LabError, KeyError, TypeError):
        return ""


def execute_all(
    notebook: NotebookFile,
    wanted: Mapping[int, tuple[Mapping[str, Scalar], str]],
    folder: Path,
    *,
    jobs: int,
    tell: Callable[[int, LabError | None], None],
    fail_fast: bool = False,
) -> dict[int, LabError]:
    """Execute the notebook for each point, and write it atomically; `wanted` has values and
    identity by point number.

    `tell` is called when each of them ends. Returns the errors by number. With `fail_fast`, the
    first error is raised and no further notebook is started.
    """
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)

    def execute_point(number: int) -> None:
        values, executed_from = wanted[number]
        out, stopped = executed(folder, number), failed(folder, number)
        part = folder / FOLDER / f".{number:04d}-{os.getpid()}.ipynb"
        try:
            book = execute(open_notebook(notebook), notebook.path, values, progress=False, out=part)
        except LabError:
            if part.exists():
                part.replace(stopped)
            raise
        finally:
            part.unlink(missing_ok=True)
        book.metadata.papermill |= {"input_path": str(notebook.path), "output_path": str(out)}
        book.metadata[NOTE] = {EXECUTED_FROM: executed_from}
        write_whole(out, nbformat.writes(book).encode())
        stopped.unlink(missing_ok=True)

    return side_by_side(wanted, execute_point, jobs=jobs, tell=tell, fail_fast=fail_fast)
