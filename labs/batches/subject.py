"""The subject of a plan: a lab, or a notebook and the lab whose parameters it checks. Notebooks are
read without being executed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from labs.batches.plan_source import PlanSource
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
from labs.errors import BadInput, LabError
from labs.publish import page_parameters
from labs.publish.page_parameters import CHECK, checked_lab
from labs.read.lab import Lab
from labs.read.notebook_file import read_notebook

LAB, NOTEBOOK = "lab", "notebook"
"""The keys of a plan that name a subject."""
PARAMETERS = "parameters"


@dataclass(frozen=True)
class Subject:
    """A lab, or the notebook in `path`.

    `defaults` are the values in the notebook's parameters cell, by notebook name. `computed` names
    the parameters whose value there is not a single literal; the plan must give them.
    """

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
        every = declared(self.lab.Parameters).values()
        return {parameter.notebook_name: parameter for parameter in every}

    def with_values(self, values: Mapping[str, Scalar]) -> LabParameters:
        """The parameters of the lab with these values, by notebook name.

        For a lab, they are those that `labs run` uses for the same flags; for a notebook, those
        that its check returns for the same values from papermill. BadInput for an invalid value.
        """
        values = {**self.defaults, **values}
        given = {self.parameters[name].name: value for name, value in values.items()}
        if self.path is None:
            return with_testbed_defaults(self.lab.Parameters, given, spell=notebook_name)
        given["runs"] = beside_the_notebooks(given.get("runs", "runs"))
        return check(self.lab.Parameters, given, spell=notebook_name)


def subject_of(source: PlanSource, given: str | None) -> Subject:
    """The subject that the plan or the caller names; BadInput, with the line, if it is not exactly
    one, or does not give a value for each parameter of a notebook."""
    keys = [key for key in (LAB, NOTEBOOK) if key in source.content]
    if len(keys) > 1:
        raise source.complaint("lab and notebook are both given. Remove one", NOTEBOOK)
    if keys and given is not None:
        raise source.complaint(
            f"the plan names a {keys[0]}, and {given} was given in addition. Remove one", *keys
        )
    if not keys and given is None:
        raise source.complaint(
            "the plan names neither a lab nor a notebook. Add a line such as lab: buffers, or "
            "use --of"
        )
    if given is not None:
        subject = _loaded(given, NOTEBOOK if given.endswith(".ipynb") else LAB, Path())
    else:
        try:
            subject = _loaded(str(source.content[keys[0]]), keys[0], source.path.parent)
        except LabError as error:
            raise source.located(error, *keys) from error
    by_key = {"SEED"} if "seeds" in source.content else set()
    for name in subject.computed:
        if name not in source.content.keys() | by_key:
            raise source.complaint(
                f"{name} in the parameters cell of {subject.name} is not a single literal. Give "
                f"{name} in the plan",
                *keys,
            )
    return subject


def _loaded(name_or_path: str, kind: str, folder: Path) -> Subject:
    """A lab by its name or file, or a notebook; a relative path is resolved in `folder` first."""
    if kind == NOTEBOOK:
        return notebook_subject(_beside(folder, name_or_path))
    return Subject(_lab(name_or_path, folder))


def _lab(name_or_path: str, folder: Path) -> Lab:
    is_file = name_or_path not in LABS and name_or_path.endswith(".py")
    return find(str(_beside(folder, name_or_path)) if is_file else name_or_path)


def _beside(folder: Path, path: str) -> Path:
    """A path in `folder` if it exists there, otherwise in the current folder."""
    return folder / path if (folder / path).exists() else Path(path)


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
        subject = Subject(_lab(name, path.parent), path)
        assigned = page_parameters.declared(notebook)
        literals = {name: value for name, value in assigned.items() if value is not None}
        from_literals(subject.lab.Parameters, literals)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from error
    names = [name for name in assigned if name in subject.parameters]
    return replace(
        subject,
        defaults={name: literals[name] for name in names if name in literals},
        computed=tuple(name for name in names if name not in literals),
    )
