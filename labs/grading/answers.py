"""The answers in a notebook: numbers, arithmetic of numbers, or a text. No code is executed."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from labs.errors import BadInput
from labs.read.display.format import printable
from labs.read.exercises.exercise import Answer
from labs.read.notebook_file import NotebookFile, assignments

ANSWER, GUESS = "answer", "guess"
"""The tags of a cell for answers, and of one for guesses."""
LONGEST_TEXT = 60
NAME = re.compile(r"^([a-z_][a-z0-9_]*) *=", re.MULTILINE | re.ASCII)
ALLOWED = "Write a number, arithmetic of numbers, or a text in quotes"
OPERATIONS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


@dataclass(frozen=True)
class Given:
    """What a notebook has for one name: an answer, None, or the problem with it."""

    answer: Answer | None
    problem: str = ""


def answers(notebook: NotebookFile, tag: str = ANSWER) -> dict[str, Given]:
    """The last value that the cells with this tag assign to each name.

    Of a cell that is not Python each name at the beginning of a line has the problem.
    """
    found: dict[str, Given] = {}
    for cell in notebook.tagged(tag):
        try:
            found |= {name: given(value) for name, value in assignments(cell)}
        except BadInput as error:
            found |= dict.fromkeys(NAME.findall(cell.source), Given(None, str(error)))
    return found


def given(value: ast.expr) -> Given:
    """An answer, or the reason why it cannot be used."""
    try:
        if isinstance(value, ast.Constant) and value.value is None:
            return Given(None)
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            return usable(value.value)
        return usable(_number(value))
    except BadInput as error:
        return Given(None, str(error))
    except (ArithmeticError, RecursionError) as error:
        return Given(None, f"it cannot be computed ({type(error).__name__}). {ALLOWED}")


def usable(value: object) -> Given:
    """The value of a variable as an answer: a finite number, a text, or None."""
    if value is None:
        return Given(None)
    if isinstance(value, str):
        return Given(printable(value[:LONGEST_TEXT]))
    try:
        number = math.nan if isinstance(value, bool | complex) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        return Given(None, f"it is not a finite number. {ALLOWED}")
    return Given(number)


def _number(value: ast.expr) -> float:
    """Evaluate arithmetic in floating point, so that no power takes long or much memory."""
    if isinstance(value, ast.Constant) and type(value.value) in (int, float):
        return float(value.value)  # type: ignore[arg-type]
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub | ast.UAdd):
        number = _number(value.operand)
        return -number if isinstance(value.op, ast.USub) else number
    if isinstance(value, ast.BinOp) and type(value.op) in OPERATIONS:
        found = OPERATIONS[type(value.op)](_number(value.left), _number(value.right))
        if isinstance(found, complex):
            raise BadInput(f"it is not a real number. {ALLOWED}")
        return found
    if isinstance(value, ast.Tuple):
        raise BadInput(
            "it has a comma. Write a decimal point, as in 2.62, and no thousands separators"
        )
    what = f"the name {value.id}" if isinstance(value, ast.Name) else "more than arithmetic"
    raise BadInput(f"it uses {what}. {ALLOWED}")
