"""Notebook files that other people wrote, read without executing anything."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
KINDS = ("code", "markdown", "raw")
INJECTED = "injected-parameters"
PARAMETERS = frozenset({"parameters", INJECTED})
"""The tags of our cell and of papermill's."""
FIGURE = "application/vnd.plotly.v1+json"
"""The kind of an output that is a figure."""
NOT_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)


@dataclass(frozen=True)
class Cell:
    """A cell: its source, its tags, and whether it is code."""

    source: str
    tags: frozenset[str]
    is_code: bool


@dataclass(frozen=True)
class NotebookFile:
    """A notebook: `stem` is the name under which it was handed out, or the file's own; `content`
    is its JSON, in which every cell has a type, a source and metadata."""

    path: Path
    stem: str
    cells: tuple[Cell, ...]
    content: Mapping[str, Any]

    def tagged(self, *tags: str) -> tuple[Cell, ...]:
        """The code cells with one of these tags."""
        return tuple(cell for cell in self.cells if cell.is_code and cell.tags & set(tags))


def code_cells(cells: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The code cells except papermill's, which names the folder of runs; messages number these."""
    return [
        cell
        for cell in cells
        if cell["cell_type"] == "code" and INJECTED not in cell["metadata"].get("tags", ())
    ]


def joined(text: Any) -> str:
    """A text of a notebook file, which may be a list of lines."""
    return "".join(map(str, text)) if isinstance(text, list) else str(text)


def read_notebook(path: Path, *, follow: bool = True) -> NotebookFile:
    """Read a notebook; with `follow`, also through a symbolic link.

    BadInput if there is no such file, Damaged if it is not a notebook.
    """
    if path.suffix != ".ipynb":
        raise BadInput(f"{path} is not a notebook. Name an .ipynb file")
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise BadInput(f"{path} {what}. Name an existing .ipynb file")
    content = read_json(path, most_bytes=MOST_BYTES, follow=follow, next_step=NEXT_STEP)
    return notebook_file(content, path)


def notebook_file(content: Mapping[str, Any], path: Path) -> NotebookFile:
    """The notebook in a JSON object; Damaged if it is not one of format 4."""
    cells, metadata = content.get("cells"), content.get("metadata")
    version = (content.get("nbformat"), content.get("nbformat_minor"))
    if (
        not (isinstance(cells, list) and isinstance(metadata, dict))
        or {*map(type, version)} != {int}
        or version[0] != 4
    ):
        raise Damaged(f"{path} is not a notebook of format 4. {NEXT_STEP}")
    stem = _handed_out_as(metadata) or path.stem
    return NotebookFile(path, stem, tuple(_cell(cell, path) for cell in cells), content)


def _handed_out_as(metadata: Mapping[str, Any]) -> str:
    handed_out = metadata.get("labs")
    stem = handed_out.get("notebook") if isinstance(handed_out, dict) else None
    named = isinstance(stem, str) and stem.isprintable() and len(stem) <= LONGEST_STEM
    return str(stem) if named else ""


def _cell(content: Any, path: Path) -> Cell:
    fields = content if isinstance(content, dict) else {}
    kind, source, metadata = (fields.get(name) for name in ("cell_type", "source", "metadata"))
    tags = metadata.get("tags", []) if isinstance(metadata, dict) else None
    lines = source if isinstance(source, list) else [source]
    if not (isinstance(tags, list) and kind in KINDS and _texts(tags) and _texts(lines)):
        raise Damaged(f"{path} has a cell with invalid type, source, metadata or tags. {NEXT_STEP}")
    outputs = fields.get("outputs", [])
    if not (isinstance(outputs, list) and all(map(_is_output, outputs))):
        raise Damaged(f"{path} has a cell with invalid outputs. {NEXT_STEP}")
    return Cell(joined(source), frozenset(tags), kind == "code")


def _texts(parts: list[Any]) -> bool:
    return all(isinstance(part, str) for part in parts)


def _is_output(output: Any) -> bool:
    return isinstance(output, dict) and isinstance(output.get("data", {}), dict)


def title(cells: Iterable[Mapping[str, Any]]) -> str:
    """The words of the first first-level heading, or nothing."""
    for cell in cells:
        if cell["cell_type"] == "markdown":
            for line in "".join(cell["source"]).splitlines():
                if line.startswith("# "):
                    return line[2:].strip()
    return ""


def given_parameters(content: Mapping[str, Any]) -> dict[str, Any]:
    """The values that papermill was given for a notebook."""
    noted = content["metadata"].get("papermill")
    given = noted.get("parameters") if isinstance(noted, dict) else None
    return given if isinstance(given, dict) else {}


def assignments(cell: Cell) -> Iterator[tuple[str, ast.expr]]:
    """The lines NAME = VALUE of a cell, with or without a type, not evaluated. BadInput for a cell
    that is not Python."""
    try:
        if len(cell.source) > MOST_SOURCE:
            raise ValueError(f"it has more than {MOST_SOURCE} characters")
        lines = statements(cell.source)
    except NOT_PYTHON as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadInput(
            f"a cell cannot be read ({reason}). Write one NAME = VALUE per line"
        ) from None
    yield from named_values(lines)


def statements(source: str) -> Sequence[ast.stmt]:
    """The statements of a source, without Python's warnings; NOT_PYTHON if it is not Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source).body


def named_values(lines: Sequence[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """The names that statements assign to, each with its value, not evaluated."""
    for line in lines:
        if isinstance(line, ast.Assign):
            for target in line.targets:
                if isinstance(target, ast.Name):
                    yield target.id, line.value
        elif isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.value:
            yield line.target.id, line.value


def parameters(notebook: NotebookFile, tags: Collection[str] = PARAMETERS) -> dict[str, Any]:
    """The literal values of the parameters cell, and of papermill's."""
    values: dict[str, Any] = {}
    for cell in notebook.tagged(*tags):
        for name, value in assignments(cell):
            try:
                values[name] = ast.literal_eval(value)
            except (*NOT_PYTHON, TypeError):
                raise BadInput(f"the parameter {name} is not a literal. Write a value") from None
    return values
