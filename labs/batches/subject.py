"""The subject of a plan: a lab, or a notebook and the lab whose parameters it checks. Notebooks are
read without being executed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from labs.catalog import LABS, find
from labs.drive.parameters.declare import (
    LabParameters,
    Parameter,
    Scalar,
    check,
    declared,
    notebook_name,
    with_testbed_defaults,
)
from labs.drive.parameters.notebook_cell import beside_the_notebooks, from_literals
from labs.errors import BadInput
from labs.publish import page_parameters
from labs.publish.page_parameters import CHECK, checked_lab
from labs.read.lab import Lab
from labs.read.notebook_file import read_notebook

LAB, NOTEBOOK = "lab", "notebook"
"""The kinds of subjects, and the keys of a plan that name them."""
PARAMETERS = "parameters"


@dataclass(frozen=True)
class Subject:
    """A lab, or the notebook in `path`.

    `defaults` are the values in the notebook's parameters cell, by notebook name. `computed` names
    the parameters whose value there is not a single literal; the plan must give them.
    """

    kind: str
    lab: Lab
    path: Path | None = None
    defaults: Mapping[str, Scalar] = field(default_factory=dict)
    computed: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the lab, or the notebook's path."""
        return self.lab.name if self.path is None else str(self.path)

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """The declared parameters of the lab, by notebook name."""
        return {
            parameter.notebook_name: parameter
            for parameter in declared(self.lab.Parameters).values()
        }

    def with_values(self, values: Mapping[str, Scalar]) -> LabParameters:
        """The parameters of the lab with these values, by notebook name.

        For a lab, they are those that `labs run` uses for the same flags; for a notebook, those
        that its check returns for the same values from papermill. BadInput for an invalid value.
        """
        given = {
            self.parameters[name].name: value for name, value in {**self.defaults, **values}.items()
        }
        if self.kind == LAB:
            return with_testbed_defaults(self.lab.Parameters, given, spell=notebook_name)
        given["runs"] = beside_the_notebooks(given.get("runs", "runs"))
        return check(self.lab.Parameters, given, spell=notebook_name)


def lab_subject(name_or_path: str, folder: Path | None = None) -> Subject:
    """A lab by its name or file; a relative path is resolved in `folder` first."""
    return Subject(LAB, find_beside(name_or_path, folder))


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
        names = {parameter.notebook_name for parameter in declared(lab.Parameters).values()}
        assigned = page_parameters.declared(notebook)
        literals = {name: value for name, value in assigned.items() if value is not None}
        from_literals(lab.Parameters, literals)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from error
    return Subject(
        NOTEBOOK,
        lab,
        path,
        {name: value for name, value in literals.items() if name in names},
        tuple(name for name in assigned if name in names and name not in literals),
    )


def find_beside(name_or_path: str, folder: Path | None) -> Lab:
    """The lab with this name, or in a file, whose path is resolved in `folder` first."""
    is_file = name_or_path not in LABS and name_or_path.endswith(".py")
    return find(str(beside(name_or_path, folder)) if is_file else name_or_path)


def beside(path: str, folder: Path | None) -> Path:
    """A path in `folder` if it exists there, otherwise in the current folder."""
    near = None if folder is None else folder / path
    return near if near is not None and near.exists() else Path(path)
