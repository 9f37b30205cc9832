"""The parameters of a notebook and the values given for them, without starting a kernel.

Nothing slow is imported, so that a misspelt name is refused at once. Names that the notebook does
not have are refused, and a value keeps the type of its default ("6.10" is not 6.1).
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from labs.drive.parameters.declare import unknown
from labs.errors import BadInput
from labs.read.notebook_file import NOT_PYTHON, NotebookFile, assignments

Scalar = str | int | float | bool | None
CHECK = "check"
"""The tag of the cell that checks the parameters."""
CHECKS = frozenset({"check", "grid"})
"""The functions of `labs` that check parameters."""


def checked_lab(notebook: NotebookFile) -> str | None:
    """The lab whose parameters the cell tagged `check` checks: "buffers" for
    `labs.check("buffers", globals())` or `labs.grid`. None for a notebook without such a cell."""
    for cell in notebook.tagged(CHECK):
        try:
            tree = ast.parse(cell.source)
        except NOT_PYTHON:  # the notebook itself will say so
            continue
        for call in ast.walk(tree):
            if (
                isinstance(call, ast.Call)
                and isinstance(call.func, ast.Attribute)
                and call.func.attr in CHECKS
                and call.args
                and isinstance(call.args[0], ast.Constant)
            ):
                return str(call.args[0].value)
    return None


def declared(notebook: NotebookFile) -> dict[str, Scalar]:
    """The parameters of a notebook with their defaults: the literals of its tagged cell; None for
    a default that is computed. BadInput if that cell is not Python."""
    return {
        name: _default(value)
        for cell in notebook.tagged("parameters")
        for name, value in assignments(cell)
    }


def _default(value: ast.expr) -> Scalar:
    try:
        literal = ast.literal_eval(value)
    except (*NOT_PYTHON, TypeError):
        return None
    return literal if isinstance(literal, str | int | float | bool) else None


def settle(given: Sequence[str], notebook: NotebookFile) -> dict[str, Scalar]:
    """`NAME=VALUE` words as values of the type that the notebook's own default has.

    A name that the notebook does not list is passed on only if a cell of it checks parameters.
    BadInput for a word without '=' and for an unknown name.
    """
    defaults = declared(notebook)
    checked = bool(notebook.tagged(CHECK))
    settled: dict[str, Scalar] = {}
    for word in given:
        name, equals, text = word.partition("=")
        if not equals or not name.isidentifier():
            raise BadInput(f"--set {word} cannot be read. Write NAME=VALUE")
        if not defaults and not checked:
            raise BadInput(
                f"--set {word}: this notebook has no parameters. Omit --set, or write them into a "
                "cell with the tag parameters"
            )
        if name not in defaults and not checked:
            raise BadInput(unknown(name, defaults, what="parameter of this notebook"))
        settled[name] = text if isinstance(defaults.get(name), str) else _literal(text)
    return settled


def _literal(text: str) -> Scalar:
    try:
        value = ast.literal_eval(text)
    except (*NOT_PYTHON, TypeError):
        return {"true": True, "false": False}.get(text, text)
    return value if isinstance(value, str | int | float | bool | None) else text
