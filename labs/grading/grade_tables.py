"""The grades of a class as files that other systems import: CSV for a spreadsheet, for Moodle, and
as nbgrader exports it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from labs.errors import BadInput
from labs.grading.gradebook import Cell, Gradebook, columns

WORKSHEET = ("Identifier", "Grade", "Last modified (grade)", "Feedback comments")
"""What the grading worksheet of a Moodle assignment must have, on a site in English
(mod/assign/feedback/offline/importgradeslib.php), and the column of the comments, which must not be
the first (the same; mod/assign/feedback/comments/lang)."""
NBGRADER = (
    *("assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email"),
    *("raw_score", "late_submission_penalty", "score", "max_score"),
)
"""The columns that `nbgrader export` writes (nbgrader/plugins/export.py, CsvExportPlugin)."""
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A cell that begins with one of these is a formula for a spreadsheet."""


def as_csv(book: Gradebook) -> str:
    """One row per student, as `columns` has it; an empty cell where nothing was handed in."""
    wanted = columns(book)
    rows = ([value(student) for _, value in wanted] for student in book.students)
    return _written([head for head, _ in wanted], rows)


def as_nbgrader(book: Gradebook) -> str:
    """One row per student and notebook, with the columns that nbgrader exports."""
    rows = [
        (notebook, *(None, None), student.name, *(None,) * 3, sheet.points, 0, sheet.points, most)
        for student in book.students
        for notebook, sheet in sorted(student.sheets.items())
        for most in (len(sheet.grades),)
    ]
    return _written(NBGRADER, rows)


def as_moodle(book: Gradebook) -> str:
    """The grading worksheet of a Moodle assignment: the total points of each participant, with
    comments. Who handed in nothing that could be graded has no row, and so keeps their grade.

    BadInput without folders or files that Moodle named.
    """
    rows = [
        (f"Participant {student.participant}", student.points, "-", student.comments)
        for student in book.students
        if student.participant and student.sheets
    ]
    if not rows:
        raise BadInput(
            "no folder has the name of a Moodle participant "
            "(NAME_NUMBER_assignsubmission_file). Use --csv, or Moodle's archive of all submissions"
        )
    return _written(WORKSHEET, rows)


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
