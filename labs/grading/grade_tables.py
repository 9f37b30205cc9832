"""The grades of a class as CSV: for a spreadsheet, and as nbgrader exports them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from labs.grading.gradebook import Gradebook, Student
from labs.read.exercises.exercise import Answer
from labs.read.exercises.graded_answer import RIGHT

TEXTS = ("files", "problems", "remarks", "comments")
NBGRADER = (
    *("assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email"),
    *("raw_score", "late_submission_penalty", "score", "max_score"),
)
"""The columns that `nbgrader export` writes (nbgrader/plugins/export.py, CsvExportPlugin)."""
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A cell that begins with one of these is a formula for a spreadsheet."""
Row = Mapping[str, Answer | int]


def as_csv(book: Gradebook) -> str:
    """One row per student; an empty cell where nothing was handed in.

    Points per notebook and in total, 1 or 0 per question, TEXTS, and the guesses.
    """
    heads = [
        "student",
        *(f"{notebook} points" for notebook in book.notebooks),
        *("total", "of"),
        *(f"{total.notebook} {total.exercise.name}" for total in book.totals),
        *TEXTS,
        *map(" ".join, book.guesses),
    ]
    most = len(book.totals)
    return _written(heads, [{"of": most, **_row(student)} for student in book.students])


def _row(student: Student) -> Row:
    """The cells of a student by heading."""
    cells: dict[str, Answer | int] = {
        "student": student.name,
        "files": ", ".join(student.files),
        "problems": " ".join(student.problems),
        "remarks": " ".join(student.remarks),
        "comments": student.comments,
    }
    if student.sheets:
        cells["total"] = student.points
    for notebook, sheet in student.sheets.items():
        marks = {grade.exercise.name: int(grade.verdict == RIGHT) for grade in sheet.grades}
        by_name = {"points": sheet.points, **marks, **sheet.guesses}
        cells |= {f"{notebook} {name}": value for name, value in by_name.items()}
    return cells


def as_nbgrader(book: Gradebook) -> str:
    """One row per student and notebook, with the columns that nbgrader exports."""
    rows: list[Row] = [
        {
            "assignment": notebook,
            "student_id": student.name,
            "late_submission_penalty": 0,
            "max_score": len(sheet.grades),
            **dict.fromkeys(("raw_score", "score"), sheet.points),
        }
        for student in book.students
        for notebook, sheet in sorted(student.sheets.items())
    ]
    return _written(NBGRADER, rows)


def _written(heads: Sequence[str], rows: Iterable[Row]) -> str:
    """The table as CSV, in which a text that a spreadsheet would compute is quoted."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(map(_cell, heads))
    writer.writerows([_cell(row.get(head, "")) for head in heads] for row in rows)
    return out.getvalue()


def _cell(value: Answer | int) -> Answer | int:
    is_text = isinstance(value, str) and len(value) > 1
    return f"'{value}" if is_text and str(value).lstrip(" ").startswith(FORMULA) else value
