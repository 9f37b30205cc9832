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
    Parameter,
    Scalar,
    check,
    declared,
    nearest,
    notebook_name,
    plain,
    shown,
    told,
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
            one = declared(cls)[name]
            raise BadInput(
                f"{one.notebook_name} = {shown(value)} is a list; allowed: {one.allowed}. "
                "Set one value, or replace `p = labs.check(...)` by `p, over = labs.grid(...)` "
                "and study them with `labs.study(p, over=over)`"
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
    firsts = {name: found[0] for name, found in varied.items()}
    return check(cls, {**values, **firsts}, spell=notebook_name), varied


def from_literals(cls: type[P], literals: Mapping[str, Any]) -> P:
    """The parameters from the literals of a parameters cell, without a kernel; names that resemble
    no parameter belong to the user."""
    known = {one.notebook_name for one in declared(cls).values()}
    return from_globals(cls, {name: literals[name] for name in literals if _meant(name, known)})


def _assigned(
    cls: type[Any],
    names: Mapping[str, Any],
    changed: Mapping[str, Any],
    besides: Collection[str] = (),
) -> dict[str, Any]:
    """The values given for parameters, by field name; see `from_globals`."""
    known = {one.notebook_name: one.name for one in declared(cls).values()}
    for name in changed:
        if name not in known.values():
            raise BadInput(unknown(name, known.values()))
    cells = _cells(names, known, besides)
    for cell in cells:
        for name in cell.misspelt(known):
            if name in names:
                raise BadInput(unknown(str(name), known) + ("" if cell.injected else OWN_NAMES))
    assigned = {name for cell in cells for name in cell.names} if cells else set(known)
    values = {
        field: names[name] for name, field in known.items() if name in assigned and name in names
    }
    values.update(changed)
    if "runs" in declared(cls):
        values["runs"] = beside_the_notebooks(values.get("runs", "runs"))
    return values


def _cells(
    names: Mapping[str, Any], known: Collection[str], besides: Collection[str]
) -> list[Cell]:
    """The cells that assign parameters: those of a notebook, or a single one with the names of a
    script or of a dict."""
    if not any(frame.f_globals is names for frame, _ in traceback.walk_stack(None)):
        if "__builtins__" in names:
            raise BadInput(COPIED)
        return [Cell(tuple(name for name in names if name not in besides), injected=True)]
    values = [name for name, one in names.items() if not isinstance(one, ModuleType | type)]
    if not names.get("In"):
        return [Cell(tuple(values))]
    cells = parameter_cells(names["In"], known)
    ever = {name for source in names["In"] for name in _read(source).names} if cells else known
    for name in values:
        if name in known and name not in ever:
            raise BadInput(
                f"{told(name, names[name])} was assigned by no cell. "
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
