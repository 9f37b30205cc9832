"""Students' copies as nbgrader's source notebooks, and the points that its graded cells show.

The metadata follow version 3 of nbgrader's schema (nbgrader/nbgraderformat/v3.json, release 0.9).
A graded cell is worth what its last expression shows, a number from 0 to its points
(nbgrader/utils.py, determine_grade). Cells for answers stay ordinary cells: nbgrader replaces the
content of what it calls a solution cell (nbgrader/preprocessors/clearsolutions.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labs.errors import BadInput
from labs.grading.grade_sheet import exercises_of, graded
from labs.read.exercises.graded_answer import RIGHT

SCHEMA_VERSION = 3
CHECK, GRADE = "check", "grade"
"""The tag of the cell that imports this package, and the id of the cell that shows all hints."""


def points(notebook: str, question: str, names: Mapping[str, Any]) -> int:
    """1 if the answer in a notebook's `globals()` is right, else 0, with the hint printed.

    BadInput for an unknown notebook or question, or invalid parameters.
    """
    questions = [exercise.name for exercise in exercises_of(notebook)[1]]
    if question not in questions:
        raise BadInput(
            f"{question} is not a question of {notebook}. Allowed: {', '.join(questions)}"
        )
    (grade,) = [grade for grade in graded(notebook, names) if grade.exercise.name == question]
    print(f"{grade.exercise.asks}: {grade.verdict}. {grade.hint}".strip())
    return int(grade.verdict == RIGHT)


def as_source(notebook: dict[str, Any], stem: str) -> None:
    """Make a student's copy a source notebook of nbgrader: one graded cell per question behind the
    cell with the hints, worth one point. A notebook without exercises stays as it is."""
    cells = notebook["cells"]
    place = next((n for n, cell in enumerate(cells) if cell.get("id") == GRADE), None)
    if place is None:
        return
    for cell in cells:
        if CHECK in cell["metadata"].get("tags", []):
            _mark(cell, CHECK)
    _mark(cells[place], GRADE)
    cells[place + 1 : place + 1] = [
        _graded(stem, exercise.name) for exercise in exercises_of(stem)[1]
    ]


def _graded(stem: str, question: str) -> dict[str, Any]:
    cell: dict[str, Any] = {
        "cell_type": "code",
        "id": f"points-{question}",
        "metadata": {},
        "source": [f'labs.points("{stem}", "{question}", globals())'],
        "outputs": [],
        "execution_count": None,
    }
    _mark(cell, f"points-{question}", points=1)
    return cell


def _mark(cell: dict[str, Any], name: str, *, points: int | None = None) -> None:
    cell["metadata"]["nbgrader"] = {
        "schema_version": SCHEMA_VERSION,
        "grade_id": name,
        "grade": points is not None,
        "locked": True,
        "solution": False,
        "task": False,
        **({} if points is None else {"points": points}),
    }
