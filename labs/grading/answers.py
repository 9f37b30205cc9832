"""The answers in a notebook: numbers, arithmetic of numbers, or a text. No code is executed."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from labs.errors import BadInput
from labs.read.display.format import printable
from labs.read.exercises.exercise import Answer
from labs.read.notebook_file import (
    MOST_SOURCE,
    NOT_PYTHON,
    Cell,
    NotebookFile,
    assignments,
    named_values,
    statements,
)

ANSWER, GUESS = "answer", "guess"
"""The tags of a cell for answers, and of one for guesses."""
LONGEST_TEXT = 60
NAME = re.compile(r"[ \t]*([a-z_][a-z0-9_]*)[ \t]*(?::[^=]*)?=(?!=)", re.ASCII)
"""The beginning of a line NAME = VALUE, with or without a type."""
MOST_LINES = 20
"""The lines that one answer may have in a cell that is not Python."""
NUMBER_WITH_UNIT = re.compile(
    r"([-+]?\d+(?:[.,]\d+)?(?:[eE][-+]?\d+)?) *(?:%|[^\W\d_]+(?:/[^\W\d_]+)?)"
)
WORDS = re.compile(r"[^\W\d_]+(?:[ -][^\W\d_]+){0,9}")
QUOTES = "\"'`\N{ACUTE ACCENT}\u2018\u2019\u201a\u201c\u201d\u201e\u00ab\u00bb"
"""Straight quotes, and those that keyboards and word processors insert instead."""
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
    """The last value that the cells with this tag assign to each name."""
    return {name: value for cell in notebook.tagged(tag) for name, value in _values(cell)}


def _values(cell: Cell) -> Sequence[tuple[str, Given]]:
    """The values in a cell. One that is not Python is read line by line: a line that cannot be read
    affects only its own name."""
    try:
        return _given(assignments(cell))
    except BadInput as error:
        problem = Given(None, str(error))
    lines = cell.source.split("\n")
    named = [(place, match[1]) for place, line in enumerate(lines) if (match := NAME.match(line))]
    if len(cell.source) > MOST_SOURCE:
        return [(name, problem) for _, name in named]
    ends = [*(place for place, _ in named[1:]), len(lines)]
    return [
        assignment
        for (place, name), end in zip(named, ends, strict=False)
        for assignment in _of_lines(name, lines[place : min(end, place + MOST_LINES)])
    ]


def _of_lines(name: str, lines: Sequence[str]) -> Sequence[tuple[str, Given]]:
    """The values in the first of these lines, and in as many further ones as make it Python."""
    reasons = []
    for count in range(1, len(lines) + 1):
        try:
            return _given(named_values(statements("\n".join(lines[:count]))))
        except NOT_PYTHON as error:
            reasons.append(printable(getattr(error, "msg", str(error)) or type(error).__name__))
    written = lines[0].partition("=")[2].partition("#")[0].strip()
    return [(name, Given(None, _correction(name, written, reasons[0])))]


def _given(values: Iterable[tuple[str, ast.expr]]) -> Sequence[tuple[str, Given]]:
    return [(name, given(value)) for name, value in values]


def _correction(name: str, written: str, reason: str) -> str:
    """What is wrong with a value that is not Python, and how to write it."""
    if number := NUMBER_WITH_UNIT.fullmatch(written):
        if "," in number[1]:
            return "it has a comma and a unit. Write the number alone, with a point, as in 2.62"
        return f"it has a unit. If the question asks for that unit, write {name} = {number[1]}"
    words = written.strip(QUOTES)
    if WORDS.fullmatch(words) and len(words) <= LONGEST_TEXT:
        return f'it is not in plain quotes. Write {name} = "{words}"'
    return f"it cannot be read ({reason}). {ALLOWED}"


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
        result = OPERATIONS[type(value.op)](_number(value.left), _number(value.right))
        if isinstance(result, complex):
            raise BadInput(f"it is not a real number. {ALLOWED}")
        return result
    if isinstance(value, ast.Tuple):
        raise BadInput(
            "it has a comma. Write a decimal point, as in 2.62, and no thousands separators"
        )
    if isinstance(value, ast.Name):
        raise BadInput(f'it uses the name {value.id}. A text needs quotes: "{value.id}". {ALLOWED}')
    raise BadInput(f"it uses more than arithmetic. {ALLOWED}")
