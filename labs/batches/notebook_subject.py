"""A notebook as the subject of a plan, read without executing it."""

from __future__ import annotations

from pathlib import Path

from labs.batches.subject import NOTEBOOK, Subject, find_beside
from labs.drive.parameters.declare import declared as declared_by_lab
from labs.drive.parameters.notebook_cell import from_globals
from labs.errors import BadInput
from labs.publish.page_parameters import CHECK, checked_lab, declared
from labs.read.notebook_file import read_notebook

PARAMETERS = "parameters"


def notebook_subject(path: Path) -> Subject:
    """The notebook in a file, with the values of its parameters cell and the lab of its check cell.

    BadInput for a notebook that lacks one of these cells, or whose values fail its own check;
    Damaged for a file that is not a notebook.
    """
    notebook = read_notebook(path)
    if not notebook.tagged(PARAMETERS):
        raise BadInput(
            f"{path} has no parameters cell. Tag the cell that sets parameters with {PARAMETERS}"
        )
    name = checked_lab(notebook)
    if name is None:
        raise BadInput(
            f"{path} has no check cell. Tag a cell that has labs.check(LAB, globals()) with {CHECK}"
        )
    try:
        lab = find_beside(name, path.parent)
        known = {one.notebook_name for one in declared_by_lab(lab.Parameters).values()}
        found = declared(notebook)
        literals = {name: value for name, value in found.items() if value is not None}
        from_globals(lab.Parameters, literals)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from error
    return Subject(
        NOTEBOOK,
        lab,
        path,
        {name: value for name, value in literals.items() if name in known},
        tuple(name for name in found if name in known and name not in literals),
    )
