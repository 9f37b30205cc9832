"""A notebook for a bundle: executed with its runs kept, or taken as it was executed before.

Whatever differs between executions with equal results is removed: times, and the random identifier
of the cell into which papermill writes parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from labs.publish.execute import execute, open_notebook
from labs.publish.notebook_runs import BEGIN
from labs.publish.page_parameters import Scalar
from labs.read.notebook_file import INJECTED, NotebookFile

KEPT_SETTINGS = ("parameters", "default_parameters", "environment_variables", "version")
SAVE = "from labs.publish import notebook_runs; notebook_runs.save({!r}, globals())"


@dataclass(frozen=True)
class Executed:
    """A notebook with its outputs: its file name and its content. `runs` is the folder with the
    runs that it opened; None if it was executed before."""

    name: str
    content: bytes
    runs: Path | None


def is_executed(notebook: NotebookFile) -> bool:
    """Whether papermill has executed a notebook, and it still has outputs."""
    metadata = notebook.content["metadata"]
    return "papermill" in metadata and any(
        cell.get("outputs") for cell in notebook.content["cells"]
    )


def taken(notebook: NotebookFile) -> Executed:
    """A notebook as it was executed."""
    noted = notebook.content["metadata"]["papermill"]
    noted = noted if isinstance(noted, dict) else {}
    book = open_notebook(notebook)
    book.metadata["papermill"] = noted
    return Executed(notebook.path.name, _as_bytes(book), None)


def executed(
    notebook: NotebookFile, values: Mapping[str, Scalar], folder: Path, *, progress: bool
) -> Executed:
    """Execute a notebook; the runs that it opens are copied below `folder`."""
    runs = folder / notebook.path.stem
    runs.mkdir()
    book = open_notebook(notebook)
    book.cells.append(nbformat.v4.new_code_cell(SAVE.format(str(runs))))
    done = execute(book, notebook.path, values, progress=progress, before=BEGIN)
    done.cells.pop()
    return Executed(notebook.path.name, _as_bytes(done), runs)


def _as_bytes(book: Any) -> bytes:
    noted = book.metadata.get("papermill", {})
    book.metadata["papermill"] = {name: noted[name] for name in KEPT_SETTINGS if name in noted}
    for cell in book.cells:
        for name in ("papermill", "execution"):
            cell.metadata.pop(name, None)
        if INJECTED in cell.metadata.get("tags", ()):
            cell["id"] = INJECTED
    text: str = nbformat.writes(book)
    return f"{text}\n".encode()
