"""The grades of a class as CSV: for a spreadsheet, and as nbgrader exports them."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence

from labs.grading.grade_sheet import Sheet
from labs.grading.gradebook import Gradebook, Student
from labs.read.exercises.exercise import Answer
from labs.read.exercises.graded_answer import RIGHT

NBGRADER = (
    *("assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email"),
    *("raw_score", "late_submission_penalty", "score", "max_score"),
)
"""The columns that `nbgrader export` writes (nbgrader/plugins/export.py, CsvExportPlugin)."""
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A cell that begins with one of these is a formula for a spreadsheet."""
Cell = Answer | int | None
Column = tuple[str, Callable[[Student], Cell]]


def as_csv(book: Gradebook) -> str:
    """One row per student, as `columns` has it; an empty cell where nothing was handed in."""
    wanted = columns(book)
    rows = ([value(student) for _, value in wanted] for student in book.students)
    return _written([head for head, _ in wanted], rows)


def columns(book: Gradebook) -> list[Column]:
    """The table of a class: a heading and the cell of a student; None where nothing was handed in.

    Points per notebook and in total, 1 or 0 per question, files, problems, remarks, the
    numbers of the groups with equal sheets and comments as text, and the guesses.
    """
    totals = book.totals
    return [
        ("student", lambda student: student.name),
        *(
            (f"{notebook} points", _of_sheet(notebook, lambda sheet: sheet.points))
            for notebook in book.notebooks
        ),
        ("total", lambda student: student.points if student.sheets else None),
        ("of", lambda student: len(totals)),
        *(
            (f"{total.notebook} {total.question}", _of_sheet(total.notebook, _mark(total.question)))
            for total in totals
        ),
        ("files", lambda student: ", ".join(student.files)),
        ("problems", lambda student: " ".join(student.problems)),
        ("remarks", lambda student: " ".join(student.remarks)),
        ("equal sheets", lambda student: ", ".join(_groups_of(student.name, book))),
        ("comments", lambda student: student.comments),
        *(
            (f"{guess.notebook} {guess.name}", _of_sheet(guess.notebook, _guess(guess.name)))
            for guess in book.guesses
        ),
    ]


def _groups_of(student: str, book: Gradebook) -> Iterator[str]:
    return (f"{n}" for n, group in enumerate(book.equal, 1) if student in group.students)


def _of_sheet(notebook: str, value: Callable[[Sheet], Cell]) -> Callable[[Student], Cell]:
    return lambda student: value(student.sheets[notebook]) if notebook in student.sheets else None


def _mark(question: str) -> Callable[[Sheet], Cell]:
    return lambda sheet: next(
        (int(grade.verdict == RIGHT) for grade in sheet.grades if grade.exercise.name == question),
        None,
    )


def _guess(name: str) -> Callable[[Sheet], Cell]:
    return lambda sheet: sheet.guesses.get(name)


def as_nbgrader(book: Gradebook) -> str:
    """One row per student and notebook, with the columns that nbgrader exports."""
    rows = [
        (notebook, *(None, None), student.name, *(None,) * 3, sheet.points, 0, sheet.points, most)
        for student in book.students
        for notebook, sheet in sorted(student.sheets.items())
        for most in (len(sheet.grades),)
    ]
    return _written(NBGRADER, rows)


def _written(head: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([_cell(cell) for cell in head])
    writer.writerows([_cell(cell) for cell in row] for row in rows)
    return out.getvalue()


def _cell(value: Cell) -> Cell:
    """A text that a spreadsheet would compute is quoted."""
    if not isinstance(value, str):
        return value
    formula = len(value) > 1 and value.lstrip(" ").startswith(FORMULA)
    return f"'{value}" if formula else value
