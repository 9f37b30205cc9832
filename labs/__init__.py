"""A lab about TCP on real Linux kernels.

    import labs
    p = labs.check("buffers", globals())    # one line if a parameter is wrong
    study = labs.study(p)                   # reads the runs there are, makes those that are missing
    labs.verdicts(study)                    # what an article says, and whether it holds

Importing this package loads nothing else; each part loads when it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labs import errors
    from labs.drive.parameters.base import LabParameters
    from labs.read import capture
    from labs.studies import charts, runs
    from labs.studies.study import study
    from labs.studies.verdicts import verdicts

__all__ = ["capture", "charts", "check", "errors", "runs", "study", "verdicts"]

_PLACES = {
    "capture": "labs.read.capture",
    "charts": "labs.studies.charts",
    "errors": "labs.errors",
    "runs": "labs.studies.runs",
    "study": "labs.studies.study:study",
    "verdicts": "labs.studies.verdicts:verdicts",
}


def check(lab: str, names: Mapping[str, Any]) -> LabParameters:
    """The parameters of a lab from a notebook's `globals()`, checked: all that starts a notebook.

    `lab` is a name or the path of a file of your own. Only names assigned in the parameters cell
    are checked (`drive/parameters/cells.py`); other names are your own. BadInput, in one line, with
    what is allowed, for a lab, a parameter, a value or a condition that cannot be.
    """
    from labs.catalog import find
    from labs.drive.parameters.notebook_cell import errors_in_one_line, from_globals

    errors_in_one_line()
    found = find(lab)
    parameters = from_globals(found.Parameters, names)
    found.conditions(parameters)
    return parameters


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'labs' has no attribute {name!r}")
    from importlib import import_module

    module, _, part = _PLACES[name].partition(":")
    loaded = import_module(module)
    value = globals()[name] = getattr(loaded, part) if part else loaded
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
