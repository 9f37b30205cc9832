"""A parameter class as names of a notebook: RATE_MBIT for `rate_mbit`."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from labs.errors import BadInput, LabError
from labs.parameters.declare import check, declared, did_you_mean, notebook_name, unknown

P = TypeVar("P")
NAME = re.compile(r"[A-Z][A-Z0-9_]*")
OWN_NAMES = "; write a name of your own in small letters"
INJECTED = "# Parameters\n"
"""How papermill begins the cell that it puts behind the parameters cell."""


def from_globals(cls: type[P], names: Mapping[str, Any]) -> P:
    """Make the parameters from a notebook's globals.

    Every name in capitals counts as a parameter, unless it is a module or a class; and so does
    every name that papermill has set, in whatever case. BadInput, in one line, for a name that
    does not exist, with the nearest right one, and for a value that is not allowed.
    """
    known = {one.notebook_name: one.name for one in declared(cls).values()}
    given = {
        name: value
        for name, value in names.items()
        if NAME.fullmatch(name) and not isinstance(value, ModuleType | type)
    }
    for name in (*given, *_injected(names)):
        if name not in known:
            hint = "" if did_you_mean(name, known) else OWN_NAMES
            raise BadInput(unknown(name, known) + hint)
    values = {known[name]: value for name, value in given.items()}
    values["runs"] = beside_the_notebooks(values.get("runs", "runs"))
    return check(cls, values, spell=notebook_name)


def beside_the_notebooks(runs: Any) -> Any:
    """The same folder for a notebook as for the command line: Jupyter starts a notebook in
    `notebooks/`, and `labs run` is started one folder up, where the project is."""
    here = Path.cwd()
    relative = isinstance(runs, str) and not Path(runs).is_absolute()
    if relative and here.name == "notebooks" and (here.parent / "pyproject.toml").is_file():
        return f"../{runs}"
    return runs


def _injected(names: Mapping[str, Any]) -> tuple[str, ...]:
    """The names that papermill has set: it only warns of one that the notebook does not have."""
    cells = [cell for cell in names.get("In", ()) if str(cell).startswith(INJECTED)]
    try:
        statements = ast.parse(cells[-1]).body if cells else []
    except SyntaxError:  # a cell of the reader's own that begins alike
        return ()
    return tuple(
        target.id
        for statement in statements
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    )


def errors_in_one_line() -> None:
    """In IPython, show a LabError as its one line instead of a traceback; elsewhere do nothing.

    The cell still fails, and with it a papermill run.
    """
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or LabError in shell.custom_exceptions:
        return

    def show(shell: Any, kind: type[LabError], error: LabError, trace: Any,
             tb_offset: int | None = None) -> list[str]:
        line = [f"{kind.__name__}: {error}"]
        # The front end, and so papermill, learns of an error from this call alone.
        shell._showtraceback(kind, error, line)
        return line

    shell.set_custom_exc((LabError,), show)
