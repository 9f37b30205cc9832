"""A parameter class as names of a notebook: RATE_MBIT for `rate_mbit`.

The globals of a notebook's kernel contain every name that was ever assigned: imported constants, a
misspelt name that has been corrected, the variables of later cells. IPython's `In` contains the
source of each executed cell, which tells the names of the parameters cell from all others.
A value that is given and would not be used is refused.
"""

from __future__ import annotations

import re
import symtable
import sys
import traceback
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from labs.drive.parameters.axes import Axes, axes, is_list
from labs.drive.parameters.declare import (
    check,
    declared,
    describe_value,
    nearest,
    notebook_name,
    shown,
    unknown,
)
from labs.errors import BadInput, LabError

P = TypeVar("P")
NAME = re.compile(r"[A-Z][A-Z0-9_]*")
INJECTED = "# Parameters\n"
"""First line of the cell that papermill inserts after the parameters cell."""
OWN_NAMES = " Use lower case for names of your own."
COPIED = (
    "this dict is a copy of globals(), whose other names are not parameters. Pass globals() "
    'itself, and other values as keywords: labs.check("buffers", globals(), only="default,both")'
)
NOTHING: Mapping[str, Any] = {}


def from_globals(
    cls: type[P],
    names: Mapping[str, Any],
    changed: Mapping[str, Any] = NOTHING,
    besides: Collection[str] = (),
) -> P:
    """The parameters from the globals of a notebook, or from a dict of parameters; `changed` has
    values by field name that replace them.

    In a dict every name must be a parameter, or one of `besides`. Of a notebook's globals, only
    names that are assigned in the parameters cell, in papermill's cell, and in later cells that set
    a parameter are considered (`parameter_cells`). A parameter that none of them assigns has its
    default. BadInput, in one line, for a value that is not allowed, for a name in capitals that
    resembles a parameter, for any unknown name that papermill set, and for a parameter that has a
    value although no cell ever assigned one. All other names belong to the user.

    Of a Python script, which has no cells, all names in capitals are considered, except modules and
    classes. If no executed cell sets a parameter (`from settings import *`), the names that are
    parameters are used and no name is refused.
    """
    values = _assigned(cls, names, changed, besides)
    for name, value in values.items():
        if is_list(value):
            parameter = declared(cls)[name]
            raise BadInput(
                f"{parameter.notebook_name} = {shown(value)} is a list; allowed: "
                f"{parameter.allowed}. Set one value, or replace `p = labs.check(...)` by "
                "`p, over = labs.grid(...)` and study them with `labs.study(p, over=over)`"
            )
    return check(cls, values, spell=notebook_name)


def lists_from_globals(
    cls: type[P], names: Mapping[str, Any], changed: Mapping[str, Any] = NOTHING
) -> tuple[P, Axes]:
    """As `from_globals`, but a value may be a list: the parameters with the first value of each
    list, and the lists by field name."""
    values = _assigned(cls, names, changed)
    lists = {name: value for name, value in values.items() if is_list(value)}
    varied = axes(cls, lists, spell=notebook_name)
    firsts = {name: listed[0] for name, listed in varied.items()}
    return check(cls, {**values, **firsts}, spell=notebook_name), varied


def from_literals(cls: type[P], literals: Mapping[str, Any]) -> P:
    """The parameters from the literals of a parameters cell, without a kernel; names that resemble
    no parameter belong to the user."""
    notebook_names = {parameter.notebook_name for parameter in declared(cls).values()}
    return from_globals(
        cls, {name: literals[name] for name in literals if _meant(name, notebook_names)}
    )


def _assigned(
    cls: type[Any],
    names: Mapping[str, Any],
    changed: Mapping[str, Any],
    besides: Collection[str] = (),
) -> dict[str, Any]:
    """The values given for parameters, by field name; see `from_globals`."""
    fields = {parameter.notebook_name: parameter.name for parameter in declared(cls).values()}
    for name in changed:
        if name not in fields.values():
            raise BadInput(unknown(name, fields.values()))
    cells = _cells(names, fields, besides)
    for cell in cells:
        for name in cell.misspelt(fields):
            if name in names:
                raise BadInput(unknown(str(name), fields) + ("" if cell.injected else OWN_NAMES))
    assigned = {name for cell in cells for name in cell.names} if cells else set(fields)
    values = {
        field: names[name] for name, field in fields.items() if name in assigned and name in names
    }
    values.update(changed)
    if "runs" in declared(cls):
        values["runs"] = beside_the_notebooks(values.get("runs", "runs"))
    return values


def _cells(
    names: Mapping[str, Any], parameters: Collection[str], besides: Collection[str]
) -> list[Cell]:
    """The cells that assign parameters: those of a notebook, or a single one with the names of a
    script or of a dict."""
    if not any(frame.f_globals is names for frame, _ in traceback.walk_stack(None)):
        if "__builtins__" in names:
            raise BadInput(COPIED)
        return [Cell(tuple(name for name in names if name not in besides), injected=True)]
    values = [name for name, value in names.items() if not isinstance(value, ModuleType | type)]
    if not names.get("In"):
        return [Cell(tuple(values))]
    cells = parameter_cells(names["In"], parameters)
    ever = {name for source in names["In"] for name in _read(source).names} if cells else parameters
    for name in values:
        if name in parameters and name not in ever:
            raise BadInput(
                f"{describe_value(name, names[name])} was assigned by no cell. "
                "Assign it in the parameters cell, or delete the name"
            )
    return cells


def beside_the_notebooks(runs: Any) -> Any:
    """The same folder of runs for notebooks as for the command line: Jupyter starts a notebook in
    `notebooks/`, and `labs run` is started one folder up, in the clone."""
    here = Path.cwd()
    relative = isinstance(runs, str) and not Path(runs).is_absolute()
    if relative and here.name == "notebooks" and (here.parent / "pyproject.toml").is_file():
        return f"../{runs}"
    return runs


def errors_in_one_line() -> None:
    """In IPython, show a LabError as one line instead of a traceback; elsewhere do nothing.

    The cell still fails, and so does a papermill run.
    """
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or LabError in shell.custom_exceptions:
        return

    def show(
        shell: Any, kind: type[LabError], error: LabError, trace: Any, tb_offset: int | None = None
    ) -> list[str]:
        line = [f"{kind.__name__}: {error}"]
        # Only this call reports the error to the front end, and so to papermill.
        shell._showtraceback(kind, error, line)
        return line

    shell.set_custom_exc((LabError,), show)


@dataclass(frozen=True)
class Cell:
    """The names that a cell assigns at top level, imports excluded; `injected` by papermill."""

    names: tuple[str, ...]
    injected: bool = False

    def misspelt(self, parameters: Collection[str]) -> tuple[str, ...]:
        """The names to refuse: those in capitals that resemble a parameter, and in papermill's cell
        all that are not parameters."""
        return tuple(
            name
            for name in self.names
            if name not in parameters and (self.injected or _meant(name, parameters) is not None)
        )


def parameter_cells(history: Iterable[str], parameters: Collection[str]) -> list[Cell]:
    """The parameters cell as last executed, and the later cells that set parameters.

    The first executed cell that assigns a parameter, or a name in capitals that resembles one, is
    the parameters cell. A later cell replaces it if it assigns at least half of the same
    parameters, in either spelling. Therefore a corrected cell replaces the misspelt one, a deleted
    line no longer counts, and Run All has the same result as in a new kernel. Other later cells, up
    to the running one, count if they assign a parameter by its correct name. Of papermill's cells
    only the last one counts.
    """
    cells: list[Cell] = []
    replaceable: set[str] = set()
    for source in history:
        cell = _read(source)
        right = set(parameters).intersection(cell.names)
        meant = {_meant(name, parameters) for name in cell.names} - {None}
        if cell.injected:
            cells = [*(earlier for earlier in cells if not earlier.injected), cell]
        elif meant and 2 * len(meant & replaceable) >= len(replaceable):
            # Without a tagged cell papermill inserts its own at the top.
            first = all(earlier.injected for earlier in cells)
            cells, replaceable = [*(cells if first else ()), cell], right
        elif right:
            cells.append(cell)
    return cells


def _meant(name: str, parameters: Collection[str]) -> str | None:
    if name in parameters:
        return name
    return nearest(name, parameters) if NAME.fullmatch(name) else None


def _read(source: str) -> Cell:
    try:
        table = symtable.symtable(source, "cell", "exec")
    except (SyntaxError, ValueError):  # a cell that Python cannot run
        return Cell((), source.startswith(INJECTED))
    names = (symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned())
    return Cell(tuple(names), source.startswith(INJECTED))
