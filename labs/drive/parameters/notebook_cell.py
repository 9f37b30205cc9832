"""A parameter class as names of a notebook: RATE_MBIT for `rate_mbit`.

The globals of a notebook's kernel contain every name that was ever assigned: imported constants, a
misspelt name that has been corrected, the variables of later cells. IPython's `In` contains the
source of each executed cell, which tells the names of the parameters cell from all others.
"""

from __future__ import annotations

import re
import symtable
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from labs.drive.parameters.axes import Axes, axes, is_list
from labs.drive.parameters.declare import (
    Parameter,
    Scalar,
    check,
    declared,
    nearest,
    notebook_name,
    plain,
    shown,
    unknown,
)
from labs.errors import BadInput, LabError

P = TypeVar("P")
NAME = re.compile(r"[A-Z][A-Z0-9_]*")
INJECTED = "# Parameters\n"
"""First line of the cell that papermill inserts after the parameters cell."""
OWN_NAMES = " Use lower case for names of your own."


def from_globals(cls: type[P], names: Mapping[str, Any]) -> P:
    """The parameters from the globals of a notebook.

    Only names that are assigned in the parameters cell, in papermill's cell, and in later cells
    that set a parameter are considered (`parameter_cells`). A parameter that none of them assigns
    has its default. BadInput, in one line, for a value that is not allowed, for a name in capitals
    that resembles a parameter, and for any unknown name that papermill set. All other names belong
    to the user.

    Without cells (a Python script, a dict) all names in capitals are considered, except modules and
    classes. If no executed cell sets a parameter (`from settings import *`), the names that are
    parameters are used and no name is refused.
    """
    values = _assigned(cls, names)
    for name, value in values.items():
        if is_list(value):
            one = declared(cls)[name]
            raise BadInput(
                f"{one.notebook_name} = {shown(value)} is a list; allowed: {one.allowed}. "
                "Set one value, or replace `p = labs.check(...)` by `p, over = labs.grid(...)` "
                "and study them with `labs.study(p, over=over)`"
            )
    return check(cls, values, spell=notebook_name)


def lists_from_globals(cls: type[P], names: Mapping[str, Any]) -> tuple[P, Axes]:
    """As `from_globals`, but a value may be a list: the parameters with the first value of each
    list, and the lists by field name."""
    values = _assigned(cls, names)
    lists = {name: value for name, value in values.items() if is_list(value)}
    varied = axes(cls, lists, spell=notebook_name)
    firsts = {name: found[0] for name, found in varied.items()}
    return check(cls, {**values, **firsts}, spell=notebook_name), varied


def _assigned(cls: type[Any], names: Mapping[str, Any]) -> dict[str, Any]:
    """The values that a notebook assigns to parameters, by field name; see `from_globals`."""
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
    if "runs" in declared(cls):
        values["runs"] = beside_the_notebooks(values.get("runs", "runs"))
    return values


def _no_cells(names: Mapping[str, Any]) -> Cell:
    return Cell(
        tuple(name for name, value in names.items() if not isinstance(value, ModuleType | type))
    )


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
    found: list[Cell] = []
    replaceable: set[str] = set()
    for source in history:
        cell = _read(source)
        right = set(parameters).intersection(cell.names)
        meant = {_meant(name, parameters) for name in cell.names} - {None}
        if cell.injected:
            found = [*(one for one in found if not one.injected), cell]
        elif meant and 2 * len(meant & replaceable) >= len(replaceable):
            # Without a tagged cell papermill inserts its own at the top.
            first = all(one.injected for one in found)
            found, replaceable = [*(found if first else ()), cell], right
        elif right:
            found.append(cell)
    return found


def _meant(name: str, parameters: Collection[str]) -> str | None:
    if name in parameters:
        return name
    return nearest(name, parameters) if NAME.fullmatch(name) else None


def _read(source: str) -> Cell:
    try:
        table = symtable.symtable(source, "cell", "exec")
    except (SyntaxError, ValueError):  # a cell that Python cannot run
        return Cell((), source.startswith(INJECTED))
    names = (one.get_name() for one in table.get_symbols() if one.is_assigned())
    return Cell(tuple(names), source.startswith(INJECTED))


def literals(cls: type[Any], names: Iterable[str] | None = None) -> str:
    """The text of a notebook's parameters cell, one line per parameter: NAME = literal  # comment.

    `names` (field names) omits the other parameters, which have their defaults. papermill shows the
    comment as the parameter's help.
    """
    known = declared(cls)
    wanted = list(known) if names is None else list(names)
    for name in wanted:
        if name not in known:
            raise BadInput(unknown(name, known))
    lines = [
        (f"{known[name].notebook_name} = {_literal(known[name].default)}", known[name])
        for name in wanted
    ]
    width = max((len(line) for line, _ in lines), default=0)
    return "\n".join(f"{line.ljust(width)}  # {_comment(one)}" for line, one in lines)


def _comment(one: Parameter) -> str:
    limits = ", ".join(one.choices) if one.choices is not None else one.span
    return f"{one.help} ({limits})" if limits else one.help


def _literal(value: Scalar) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return plain(value)
