"""A lab about TCP on real Linux kernels.

    import labs
    p = labs.check("buffers", globals())    # one line if a parameter is wrong
    p, over = labs.grid("buffers", globals())    # the same; parameters may be lists of values
    study = labs.study(p)                   # reads the existing runs, performs the missing ones
    grid = labs.study(p, over={"delay_ms": [10, 50]})    # every combination of the values
    labs.charts.buffers.by_condition(study.results())
    labs.batch("DIR")                       # many points of a lab: their index as tables and charts
    labs.buffers.advice(1000, 200, "6.1")   # what the lab has for its notebook
    labs.explain(labs.check_capture(globals()))    # why a capture's connections waited
    labs.advise(1000, 200)                  # the buffers that fill a path, as a chart
    labs.audit()                            # how this machine is set up for a measurement
    labs.verdicts(study)                    # what an article says, and whether it holds
    labs.grade("00-start-here", globals())  # the answers in the notebook, with hints

Importing this package loads nothing else; each part loads when it is used.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labs import errors
    from labs.batches.report import ReportParameters, batch
    from labs.drive.parameters.axes import Axes
    from labs.drive.parameters.declare import LabParameters
    from labs.grading.grade_sheet import grade
    from labs.grading.nbgrader import points
    from labs.read import capture
    from labs.read.display.beside import guesses
    from labs.read.display.topology import topology
    from labs.read.lab import Lab
    from labs.studies import chart_access as charts
    from labs.studies import run_access as runs
    from labs.studies.advice import advise
    from labs.studies.capture_account import CaptureParameters
    from labs.studies.capture_account import explained as explain
    from labs.studies.grid import study
    from labs.studies.machine_audit import audit
    from labs.studies.testbeds import testbeds
    from labs.studies.verdicts import verdicts

__all__ = [
    "advise",
    "audit",
    "batch",
    "capture",
    "charts",
    "check",
    "check_capture",
    "check_report",
    "errors",
    "explain",
    "grade",
    "grid",
    "guesses",
    "points",
    "runs",
    "study",
    "testbeds",
    "topology",
    "verdicts",
]

_PLACES = {
    "advise": "labs.studies.advice:advise",
    "audit": "labs.studies.machine_audit:audit",
    "batch": "labs.batches.report:batch",
    "capture": "labs.read.capture",
    "charts": "labs.studies.chart_access",
    "errors": "labs.errors",
    "explain": "labs.studies.capture_account:explained",
    "grade": "labs.grading.grade_sheet:grade",
    "guesses": "labs.read.display.beside:guesses",
    "points": "labs.grading.nbgrader:points",
    "runs": "labs.studies.run_access",
    "study": "labs.studies.grid:study",
    "testbeds": "labs.studies.testbeds:testbeds",
    "topology": "labs.read.display.topology:topology",
    "verdicts": "labs.studies.verdicts:verdicts",
}


def check(lab: str, names: Mapping[str, Any], /, **changed: Any) -> LabParameters:
    """The parameters of a lab from a notebook's `globals()`, or from a dict of them, checked.

    `lab` is a name or the path of a file of your own. Of `globals()` only names assigned in the
    parameters cell are checked (`drive/parameters/notebook_cell.py`). Keywords replace values:
    `labs.check("windows", globals(), only="automatic")`. BadInput, in one line, with what is
    allowed, for an invalid lab, parameter, value or condition, and for a value that would not be
    used.
    """
    cell, found = _in_a_notebook(lab)
    parameters: LabParameters = cell.from_globals(found.Parameters, names, changed)
    found.conditions(parameters)
    return parameters


def grid(lab: str, names: Mapping[str, Any], /, **changed: Any) -> tuple[LabParameters, Axes]:
    """As `check`, but a parameter may be a list of values: `RATE_MBIT = [50, 100, 200]`.

    Returns the parameters with the first value of each list, and the lists by field name, for
    `labs.study(p, over=over)`.
    """
    cell, found = _in_a_notebook(lab)
    parameters: LabParameters
    over: Axes
    parameters, over = cell.lists_from_globals(found.Parameters, names, changed)
    found.conditions(parameters)
    return parameters, over


def check_report(names: Mapping[str, Any]) -> ReportParameters:
    """As `check`, the parameters of a notebook that reports about a batch: INDEX, EARLIER, COLUMN.

    BadInput for a batch without an index, and for a column that is not one of its results.
    """
    cell = _cell_of_a_notebook()
    report = _load("labs.batches.report")
    parameters: ReportParameters = cell.from_globals(report.ReportParameters, names)
    report.check(parameters)
    return parameters


def check_capture(names: Mapping[str, Any]) -> CaptureParameters:
    """As `check`, the parameters of a notebook that explains a capture: CAPTURE, CONNECTION.

    BadInput for a capture that does not exist.
    """
    cell = _cell_of_a_notebook()
    account = _load("labs.studies.capture_account")
    parameters: CaptureParameters = cell.from_globals(account.CaptureParameters, names)
    account.file_of(parameters.capture)
    return parameters


def _in_a_notebook(lab: str) -> tuple[Any, Lab]:
    """The module that reads a notebook's parameters, and the lab; sets up errors and the theme."""
    cell = _cell_of_a_notebook()
    found: Lab = _load("labs.catalog").find(lab)
    return cell, found


def _cell_of_a_notebook() -> Any:
    """The module that reads a notebook's parameters; sets up errors and the theme."""
    cell = _load("labs.drive.parameters.notebook_cell")
    cell.errors_in_one_line()
    if sys.modules.get("IPython") is not None:
        _load("labs.read.display.rich_output").follow_theme()
    return cell


def _load(module: str) -> Any:
    from labs.read.loading import load

    return load(module)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        if name.startswith("_") or name not in (catalog := _load("labs.catalog")).LABS:
            raise AttributeError(f"module 'labs' has no attribute {name!r}")
        return catalog.find(name).require("figures")
    module, _, part = _PLACES[name].partition(":")
    loaded = _load(module)
    value = globals()[name] = getattr(loaded, part) if part else loaded
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
