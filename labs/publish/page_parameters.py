"""The parameters of a notebook and the values given for them, without starting a kernel.

Standard library only, so that a misspelt name is refused at once. Names that the notebook does not
have are refused, and a value keeps the type of its default ("6.10" is not 6.1).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from labs.drive.parameters.declare import unknown
from labs.drive.record.stored_files import read_json
from labs.errors import BadInput
from labs.grading.notebook_file import MOST_BYTES, NEXT_STEP, NOT_PYTHON

Scalar = str | int | float | bool | None


def read_cells(path: Path) -> Any:
    """The JSON of a notebook's file. BadInput if there is none, Damaged if it is not JSON."""
    if path.suffix != ".ipynb" or not path.is_file():
        raise BadInput(f"{path} is not a notebook. Name an .ipynb file")
    return read_json(path, most_bytes=MOST_BYTES, follow=True, next_step=NEXT_STEP)


def _sources(notebook: Any, tag: str) -> list[str]:
    """The sources of the code cells with this tag; none if the file is not a notebook."""
    cells = notebook.get("cells") if isinstance(notebook, Mapping) else None
    found = []
    for cell in cells if isinstance(cells, list) else ():
        if not isinstance(cell, Mapping) or cell.get("cell_type") != "code":
            continue
        tags, source = (cell.get("metadata") or {}).get("tags") or [], cell.get("source") or ""
        if tag in tags:
            found.append(source if isinstance(source, str) else "".join(map(str, source)))
    return found


def checked_lab(notebook: Any) -> str | None:
    """The lab whose parameters the cell tagged `check` checks: "buffers" for
    `labs.check("buffers", globals())`. None for a notebook without such a cell."""
    for source in _sources(notebook, "check"):
        try:
            tree = ast.parse(source)
        except NOT_PYTHON:  # the notebook itself will say so
            continue
        for call in ast.walk(tree):
            if (
                isinstance(call, ast.Call)
                and isinstance(call.func, ast.Attribute)
                and call.func.attr == "check"
                and call.args
                and isinstance(call.args[0], ast.Constant)
            ):
                return str(call.args[0].value)
    return None


def declared(notebook: Any) -> dict[str, Scalar]:
    """The parameters of a notebook with their defaults: the literals of its tagged cell; None for
    a default that is computed."""
    found: dict[str, Scalar] = {}
    for source in _sources(notebook, "parameters"):
        for line in _lines(source):
            if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
                found[line.targets[0].id] = _default(line.value)
    return found


def _lines(source: str) -> Sequence[ast.stmt]:
    try:
        return ast.parse(source).body
    except NOT_PYTHON as error:
        raise BadInput(
            f"the cell tagged parameters is not Python ({str(error) or type(error).__name__}). "
            "Write one NAME = VALUE per line"
        ) from error


def _default(value: ast.expr) -> Scalar:
    try:
        found = ast.literal_eval(value)
    except (*NOT_PYTHON, TypeError):
        return None
    return found if isinstance(found, str | int | float | bool) else None


def settle(given: Sequence[str], notebook: Any) -> dict[str, Scalar]:
    """`NAME=VALUE` words as values of the type that the notebook's own default has.

    A name that the notebook does not list is passed on only if a cell of it checks parameters.
    BadInput for a word without '=' and for an unknown name.
    """
    defaults = declared(notebook)
    checked = bool(_sources(notebook, "check"))
    settled: dict[str, Scalar] = {}
    for word in given:
        name, equals, text = word.partition("=")
        if not equals or not name.isidentifier():
            raise BadInput(f"--set {word} cannot be read. Write NAME=VALUE")
        if name not in defaults and not checked:
            raise BadInput(unknown(name, defaults, what="parameter of this notebook"))
        settled[name] = text if isinstance(defaults.get(name), str) else _literal(text)
    return settled


def _literal(text: str) -> Scalar:
    try:
        value = ast.literal_eval(text)
    except (*NOT_PYTHON, TypeError):
        return {"true": True, "false": False}.get(text, text)
    return value if isinstance(value, str | int | float | bool | None) else text
