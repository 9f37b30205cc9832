"""Which executed cells of a notebook set its parameters, found from their source.

The globals of a kernel hold every name that was ever assigned: imported constants, a misspelt name
that was corrected since, the variables of later cells. IPython's `In` holds the source of each
executed cell, so the names of the parameters cell can be told from all others.
"""

from __future__ import annotations

import re
import symtable
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from labs.drive.parameters.declare import nearest

NAME = re.compile(r"[A-Z][A-Z0-9_]*")
INJECTED = "# Parameters\n"
"""First line of the cell that papermill inserts after the parameters cell."""


@dataclass(frozen=True)
class Cell:
    """The names that a cell assigns at top level, imports excluded; `injected` by papermill."""

    names: tuple[str, ...]
    injected: bool = False

    def misspelt(self, parameters: Collection[str]) -> tuple[str, ...]:
        """The names that are refused: in capitals and similar to a parameter. In papermill's cell
        every name must be a parameter."""
        return tuple(
            name
            for name in self.names
            if name not in parameters and (self.injected or _meant(name, parameters) is not None)
        )


def parameter_cells(history: Iterable[str], parameters: Collection[str]) -> list[Cell]:
    """The parameters cell as it was last executed, and the later cells that set parameters too.

    The first executed cell that assigns a parameter, or a name in capitals similar to one, is the
    parameters cell. A later cell replaces it if it assigns at least half of the same parameters,
    in either spelling. So a corrected cell replaces the misspelt one, a line that was deleted no
    longer counts, and Run All gives the same as in a new kernel. Other later cells, up to the one
    that is running, belong to the result if they assign a parameter by its right name; of
    papermill's cells only the last one does.
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
    except (SyntaxError, ValueError):  # a cell that Python could not run either
        return Cell((), source.startswith(INJECTED))
    names = (one.get_name() for one in table.get_symbols() if one.is_assigned())
    return Cell(tuple(names), source.startswith(INJECTED))
