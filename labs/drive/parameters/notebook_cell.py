"""A parameter class as names of a notebook: RATE_MBIT for `rate_mbit`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from labs.drive.parameters.cells import Cell, parameter_cells
from labs.drive.parameters.declare import check, declared, notebook_name, unknown
from labs.errors import BadInput, LabError

P = TypeVar("P")
OWN_NAMES = " Write a name of your own in small letters."


def from_globals(cls: type[P], names: Mapping[str, Any]) -> P:
    """Make the parameters from a notebook's globals.

    Only names assigned in the parameters cell, in papermill's cell, and in later cells that set
    a parameter too are looked at (`parameters.cells`); a parameter that none of them assigns
    has its default. BadInput, in one line, for a value that is not allowed, for a name in capitals
    that is similar to a parameter but is none, and for any unknown name that papermill set. Every
    other name is the reader's own.

    Where no cells are known (a Python script, a dict) all names in capitals are looked at, except
    modules and classes. If no executed cell sets a parameter (`from settings import *`), those
    that are parameters count and no name is refused.
    """
    known = {one.notebook_name: one.name for one in declared(cls).values()}
    cells = parameter_cells(names["In"], known) if names.get("In") else [_no_cells(names)]
    for cell in cells:
        for name in cell.misspelt(known):
            if name in names:
                raise BadInput(unknown(name, known) + ("" if cell.injected else OWN_NAMES))
    assigned = {name for cell in cells for name in cell.names} if cells else set(known)
    values = {
        field: names[name] for name, field in known.items() if name in assigned and name in names
    }
    values["runs"] = beside_the_notebooks(values.get("runs", "runs"))
    return check(cls, values, spell=notebook_name)


def _no_cells(names: Mapping[str, Any]) -> Cell:
    return Cell(
        tuple(name for name, value in names.items() if not isinstance(value, ModuleType | type))
    )


def beside_the_notebooks(runs: Any) -> Any:
    """The same folder for a notebook as for the command line: Jupyter starts a notebook in
    `notebooks/`, and `labs run` is started one folder up, where the project is."""
    here = Path.cwd()
    relative = isinstance(runs, str) and not Path(runs).is_absolute()
    if relative and here.name == "notebooks" and (here.parent / "pyproject.toml").is_file():
        return f"../{runs}"
    return runs


def errors_in_one_line() -> None:
    """In IPython, show a LabError as its one line instead of a traceback; elsewhere do nothing.

    The cell still fails, and with it a papermill run.
    """
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or LabError in shell.custom_exceptions:
        return

    def show(
        shell: Any, kind: type[LabError], error: LabError, trace: Any, tb_offset: int | None = None
    ) -> list[str]:
        line = [f"{kind.__name__}: {error}"]
        # The front end, and so papermill, learns of an error from this call alone.
        shell._showtraceback(kind, error, line)
        return line

    shell.set_custom_exc((LabError,), show)
