"""Run a notebook with given parameters, and say in one line where it stopped.

papermill runs it; what papermill is quiet about is refused here: a name that the notebook does
not have, and a value that its own guess would turn into another ("6.10" into 6.1).
"""

from __future__ import annotations

import ast
import json
import logging
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import papermill
from jupyter_client.kernelspec import NoSuchKernel
from nbclient.exceptions import DeadKernelError
from traitlets.config import Config

from labs.drive.parameters.declare import unknown
from labs.drive.record.stored_files import read_json
from labs.errors import BRANCHES, BadInput, Damaged, Missing, RunFailed
from labs.read.runs.raw_files import UNEXPECTED

Scalar = str | int | float | bool | None

# The figure itself goes into the notebook, 50 KB; other renderers put plotly.js beside each.
RENDERER = "plotly_mimetype"
MOST_BYTES = 128 << 20
FORMATS = (1, 2, 3, 4)
NEXT_STEP = "Open it in Jupyter and save it again, or copy it from its source"


def read_notebook(path: Path) -> Any:
    """The notebook as nbformat reads it. BadInput if there is none, Damaged if it is not one."""
    if path.suffix != ".ipynb" or not path.is_file():
        raise BadInput(f"{path} is not a notebook here; give the path of an .ipynb file")
    found = read_json(path, most_bytes=MOST_BYTES, follow=True, next_step=NEXT_STEP)
    try:
        if found.get("nbformat") not in FORMATS or type(found["nbformat"]) is not int:
            raise ValueError(f"its format is not one of {FORMATS}")  # nbformat would import it
        with warnings.catch_warnings(action="ignore"):  # such as cells without an id
            nbformat.validate(found)
            return nbformat.reads(json.dumps(found), as_version=4)
    except (nbformat.ValidationError, *UNEXPECTED) as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise Damaged(f"{path} is not a notebook ({said[0][:160]}). {NEXT_STEP}") from error


def declared(notebook: Any) -> dict[str, Scalar]:
    """The parameters of a notebook with their defaults: the literals of its tagged cell; None for
    a default that is computed."""
    found: dict[str, Scalar] = {}
    for cell in notebook.cells:
        if cell.cell_type == "code" and "parameters" in cell.metadata.get("tags", []):
            for line in _lines(cell.source):
                if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
                    found[line.targets[0].id] = _default(line.value)
    return found


def _lines(source: str) -> Sequence[ast.stmt]:
    try:
        return ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadInput(
            f"the cell tagged parameters is not Python ({str(error) or type(error).__name__}). "
            "Write one NAME = VALUE per line"
        ) from error


def _default(value: ast.expr) -> Scalar:
    try:
        found = ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
    return found if isinstance(found, str | int | float | bool) else None


def settle(given: Sequence[str], notebook: Any) -> dict[str, Scalar]:
    """`NAME=VALUE` words as values of the type that the notebook's own default has.

    A name that the notebook does not list is passed on only if a cell of it checks parameters.
    BadInput for a word without '=' and for an unknown name.
    """
    defaults = declared(notebook)
    checked = any("check" in cell.metadata.get("tags", []) for cell in notebook.cells)
    settled: dict[str, Scalar] = {}
    for word in given:
        name, equals, text = word.partition("=")
        if not equals or not name.isidentifier():
            raise BadInput(f"--set {word} cannot be read; write it as NAME=VALUE")
        if name not in defaults and not checked:
            raise BadInput(unknown(name, defaults, what="parameter of this notebook"))
        settled[name] = text if isinstance(defaults.get(name), str) else _literal(text)
    return settled


def _literal(text: str) -> Scalar:
    try:
        value = ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return {"true": True, "false": False}.get(text, text)
    return value if isinstance(value, str | int | float | bool | None) else text


def execute(path: Path, values: Mapping[str, Scalar], *, progress: bool) -> Any:
    """Run a notebook from the current folder and return it with its outputs; nothing is written.

    Raises the LabError that stopped a cell, as its own class; RunFailed for any other error;
    Missing if there is no Python kernel for notebooks.
    """
    # ipykernel warns on every run about a connection that is not encrypted.
    encrypted = Config({"KernelManager": {"transport_encryption": "auto"}})
    try:
        with _surroundings():
            return papermill.execute_notebook(
                path,
                None,
                parameters=dict(values),
                kernel_name="python3",
                language="python",
                cwd=Path.cwd(),
                progress_bar=progress,
                config=encrypted,
                # It reports, as an error, that it was told to stop.
                extra_arguments=["--IPKernelApp.log_level=CRITICAL"],
            )
    except papermill.PapermillExecutionError as error:
        raise _stopped(path, error) from error
    except DeadKernelError as error:
        raise RunFailed(f"{path}: its Python died; run it in Jupyter to see where") from error
    except NoSuchKernel as error:
        raise Missing("Jupyter has no python3 kernel; pip install ipykernel") from error


@contextmanager
def _surroundings() -> Iterator[None]:
    """What the notebook's process inherits, and silence for warnings that are errors here."""
    log = logging.getLogger("papermill")
    level, found = log.level, os.environ.get("PLOTLY_RENDERER")
    log.setLevel(logging.ERROR)
    os.environ["PLOTLY_RENDERER"] = RENDERER
    try:
        yield
    finally:
        log.setLevel(level)
        os.environ.pop("PLOTLY_RENDERER")
        if found is not None:
            os.environ["PLOTLY_RENDERER"] = found


def _stopped(path: Path, error: Any) -> Exception:
    message = (str(error.evalue).strip() or "no message").splitlines()[0]
    if error.ename in BRANCHES:
        return BRANCHES[error.ename](message)
    return RunFailed(
        f"{path}: cell {error.exec_count} stopped with {error.ename}: {message}; "
        "run it in Jupyter to see where"
    )
