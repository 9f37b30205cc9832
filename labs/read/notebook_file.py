"""Notebook files that other people wrote, read without executing anything."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labs.drive.record.stored_files import read_json
from labs.errors import BadInput, Damaged

MOST_BYTES = 128 << 20
"""A notebook with its charts has 5 MB."""
MOST_SOURCE = 20_000
"""Characters of a cell that is parsed; ours have fewer than 2000."""
LONGEST_STEM = 100
NEXT_STEP = "Open it in Jupyter and save it again, or copy it from its source"
PARAMETERS = frozenset({"parameters", "injected-parameters"})
"""The tags of our cell and of papermill's."""
NOT_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)


@dataclass(frozen=True)
class Cell:
    """A cell: its source, its tags, and whether it is code."""

    source: str
    tags: frozenset[str]
    is_code: bool


@dataclass(frozen=True)
class NotebookFile:
    """A notebook: `stem` is the name under which it was handed out, or the file's own."""

    path: Path
    stem: str
    cells: tuple[Cell, ...]

    def tagged(self, *tags: str) -> tuple[Cell, ...]:
        """The code cells with one of these tags."""
        return tuple(cell for cell in self.cells if cell.is_code and cell.tags & set(tags))


def read_notebook(path: Path) -> NotebookFile:
    """Read a notebook. BadInput if there is no such file, Damaged if it is not a notebook."""
    return notebook_file(notebook_json(path), path)


def notebook_json(path: Path) -> dict[str, Any]:
    """The JSON of a notebook's file. BadInput if there is none, Damaged if it is no JSON object."""
    if path.suffix != ".ipynb" or not path.is_file():
        raise BadInput(f"{path} is not a notebook. Name an .ipynb file")
    return read_json(path, most_bytes=MOST_BYTES, follow=True, next_step=NEXT_STEP)


def notebook_file(found: Mapping[str, Any], path: Path) -> NotebookFile:
    """The notebook in a JSON object; Damaged if it is not one of format 4."""
    cells, nbformat = found.get("cells"), found.get("nbformat")
    if not isinstance(cells, list) or type(nbformat) is not int or nbformat != 4:
        raise Damaged(f"{path} is not a notebook of format 4. {NEXT_STEP}")
    return NotebookFile(path, _handed_out_as(found, path), tuple(_cell(one, path) for one in cells))


def _handed_out_as(found: Mapping[str, Any], path: Path) -> str:
    metadata = found.get("metadata")
    own = metadata.get("labs") if isinstance(metadata, dict) else None
    stem = own.get("notebook") if isinstance(own, dict) else None
    if isinstance(stem, str) and stem.isprintable() and len(stem) <= LONGEST_STEM:
        return stem
    return path.stem


def _cell(found: Any, path: Path) -> Cell:
    if not isinstance(found, dict):
        raise Damaged(f"{path} has a cell that is not an object. {NEXT_STEP}")
    source, metadata = found.get("source", ""), found.get("metadata", {})
    tags = metadata.get("tags", []) if isinstance(metadata, dict) else []
    lines = source if isinstance(source, list) else [source]
    if not all(isinstance(line, str) for line in lines) or not isinstance(tags, list):
        raise Damaged(f"{path} has a cell with invalid text or tags. {NEXT_STEP}")
    return Cell(
        "".join(lines),
        frozenset(tag for tag in tags if isinstance(tag, str)),
        found.get("cell_type") == "code",
    )


def assignments(cell: Cell) -> Iterator[tuple[str, ast.expr]]:
    """The lines NAME = VALUE of a cell, with or without a type, not evaluated. BadInput for a cell
    that is not Python."""
    try:
        if len(cell.source) > MOST_SOURCE:
            raise ValueError(f"it has more than {MOST_SOURCE} characters")
        lines = ast.parse(cell.source).body
    except NOT_PYTHON as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadInput(f"a cell cannot be read ({said}). Write one NAME = VALUE per line") from None
    for line in lines:
        if isinstance(line, ast.Assign):
            for target in line.targets:
                if isinstance(target, ast.Name):
                    yield target.id, line.value
        elif isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.value:
            yield line.target.id, line.value


def parameters(notebook: NotebookFile) -> dict[str, Any]:
    """The literal values of the parameters cell, and of papermill's."""
    found: dict[str, Any] = {}
    for cell in notebook.tagged(*PARAMETERS):
        for name, value in assignments(cell):
            try:
                found[name] = ast.literal_eval(value)
            except (*NOT_PYTHON, TypeError):
                raise BadInput(f"the parameter {name} is not a literal. Write a value") from None
    return found
