"""Execute the notebooks of a bundle again on its runs, and compare the numbers in their outputs.

This executes somebody else's code with the caller's permissions.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from labs.errors import Damaged, LabError
from labs.publish.plain_text import plain_text
from labs.read.notebook_file import FIGURE, NOT_PYTHON, NotebookFile, parameters

RUNS = "RUNS"
# A number that is not a part of a word, such as the digest in the name of a run.
NUMBER = re.compile(r"(?<![\w.-])-?\d+(?:[.,]\d+)*(?:e[+-]?\d+)?(?![\w-])")
HTML, PLAIN = "text/html", "text/plain"


@dataclass(frozen=True)
class Cells:
    """A notebook executed again: which of its code cells, counted from 1, have other numbers in
    their outputs, the first difference in words, and why it stopped, if it did. `of_machine` are
    those that differ because they measure the machine (`labs.audit()`)."""

    notebook: str
    compared: int
    changed: tuple[int, ...]
    first: str = ""
    stopped: str = ""
    of_machine: tuple[int, ...] = ()

    @property
    def equal(self) -> bool:
        return not self.changed and not self.stopped

    def as_json(self) -> dict[str, Any]:
        lists = {"changed": list(self.changed), "of_machine": list(self.of_machine)}
        return {**asdict(self), **lists, "equal": self.equal}


def execute_again(notebook: NotebookFile, runs: Path, work: Path, *, progress: bool) -> Cells:
    """Execute a notebook in the folder `work`, with its own parameters and the packed file of runs
    as RUNS; a notebook without that parameter reads the runs that it names."""
    # Loads papermill: who verifies without executing needs none of the extras.
    from labs.publish.execute import execute, open_notebook  # noqa: PLC0415

    cells = [cell for cell in notebook.content["cells"] if _is_code(cell)]
    before = list(map(_numbers, cells))
    try:
        values = parameters(notebook)
        if RUNS in values:
            values[RUNS] = str(runs)
        with contextlib.chdir(work):
            done = execute(open_notebook(notebook), notebook.path, values, progress=progress)
    except LabError as error:
        return Cells(notebook.stem, 0, (), stopped=str(error))
    after = [_numbers(cell) for cell in done.cells if _is_code(cell)]
    if len(before) != len(after):
        raise Damaged(f"{notebook.path} has other cells after it was executed again")
    pairs = list(zip(before, after, strict=True))
    differing = [at for at, (one, other) in enumerate(pairs, start=1) if one != other]
    of_machine = tuple(at for at in differing if _measures_machine(cells[at - 1]))
    changed = tuple(at for at in differing if at not in of_machine)
    first = _first(*pairs[changed[0] - 1]) if changed else ""
    return Cells(notebook.stem, len(pairs), changed, first, of_machine=of_machine)


def _measures_machine(cell: Mapping[str, Any]) -> bool:
    """Whether a cell calls `labs.audit()`, which reads the settings of this machine."""
    try:
        calls = [
            one for one in ast.walk(ast.parse(_joined(cell["source"]))) if isinstance(one, ast.Call)
        ]
    except NOT_PYTHON:
        return False
    return any(
        ast.unparse(one.func) == "labs.audit" and not one.args and not one.keywords for one in calls
    )


def _is_code(cell: Mapping[str, Any]) -> bool:
    """Whether a cell is code other than parameters, which name the folder of runs."""
    tags = cell["metadata"].get("tags", ())
    return cell["cell_type"] == "code" and "injected-parameters" not in tags


def _first(one: list[str], other: list[str]) -> str:
    for before, after in zip(one, other, strict=False):
        if before != after:
            return f"{before} -> {after}"
    return f"{len(one)} numbers -> {len(other)}"


def _numbers(cell: Mapping[str, Any]) -> list[str]:
    """The numbers in the results and figures of a cell; what it printed meanwhile, such as
    progress, is not compared."""
    return [
        number
        for output in cell.get("outputs", ())
        if output.get("output_type") in ("display_data", "execute_result")
        for number in _in_data(output.get("data", {}))
    ]


def _in_data(data: Mapping[str, Any]) -> Iterator[str]:
    if FIGURE in data:
        yield from _in_figure(data[FIGURE])
    elif HTML in data:
        yield from NUMBER.findall(plain_text(_joined(data[HTML])))
    elif PLAIN in data:
        yield from NUMBER.findall(_joined(data[PLAIN]))


def _joined(text: Any) -> str:
    return "".join(text) if isinstance(text, list) else str(text)


def _in_figure(value: Any) -> Iterator[str]:
    """Every number in a figure; arrays are base64 in plotly's JSON."""
    if isinstance(value, dict):
        if isinstance(value.get("bdata"), str):
            with contextlib.suppress(ValueError):
                yield base64.b64decode(value["bdata"]).hex()
        for name in sorted(value):
            if name != "bdata":
                yield from _in_figure(value[name])
    elif isinstance(value, list):
        for part in value:
            yield from _in_figure(part)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield json.dumps(value)
    elif isinstance(value, str):
        yield from NUMBER.findall(plain_text(value))
