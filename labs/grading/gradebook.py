"""The grades of a class: one row per student, totals per question, and everybody's guesses; as
CSV for a spreadsheet, and as nbgrader exports them."""

from __future__ import annotations

import csv
import io
from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from labs.grading.grade_sheet import Sheet
from labs.grading.submissions import Submission
from labs.read.display.format import printable
from labs.read.exercises.exercise import Answer, Exercise
from labs.read.exercises.graded_answer import MISSING, RIGHT
from labs.read.exercises.graded_answer import Graded as Judged

TEXTS = ("files", "problems", "remarks", "comments")
NBGRADER = (
    *("assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email"),
    *("raw_score", "late_submission_penalty", "score", "max_score"),
)
"""The columns that `nbgrader export` writes (nbgrader/plugins/export.py, CsvExportPlugin)."""
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A cell that begins with one of these is a formula for a spreadsheet."""
Row = Mapping[str, Answer | int]


@dataclass
class Student:
    """What one student handed in: the sheet that counts per notebook, all files, and what to know
    about them. `problems` are of files that could not be graded."""

    name: str
    sheets: dict[str, Sheet] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def points(self) -> int:
        return sum(sheet.points for sheet in self.sheets.values())

    @property
    def comments(self) -> str:
        """Why answers are not right, for the student; one sentence per question."""
        return " ".join(
            f"{grade.exercise.name}: {_reason(grade)}"
            for sheet in self.sheets.values()
            for grade in sheet.grades
            if grade.verdict != RIGHT
        )


def _totals(notebook: str, grades: Sequence[Judged]) -> Totals:
    verdicts = Counter(grade.verdict for grade in grades)
    wrong = (_reason(grade) for grade in grades if grade.verdict not in (RIGHT, MISSING))
    answered = len(grades) - verdicts[MISSING]
    exercise = grades[0].exercise
    return Totals(notebook, exercise, len(grades), answered, verdicts[RIGHT], Counter(wrong))


def _reason(grade: Judged) -> str:
    if grade.verdict == MISSING:
        return "no answer."
    return grade.hint.removeprefix(f"{grade.exercise.name}: ")


@dataclass(frozen=True)
class Totals:
    """How a class answered one question, in the sheets that count: `wrong` counts the hints."""

    notebook: str
    exercise: Exercise
    handed_in: int
    answered: int
    right: int
    wrong: Counter[str]


@dataclass(frozen=True)
class Gradebook:
    """The students of a class by name."""

    students: tuple[Student, ...]

    @property
    def totals(self) -> list[Totals]:
        """One entry per question, in the order of the notebooks."""
        return [
            _totals(notebook, grades)
            for notebook in self.notebooks
            for grades in zip(*(sheet.grades for sheet in self.sheets(notebook)), strict=True)
        ]

    @property
    def guesses(self) -> dict[tuple[str, str], list[float]]:
        """The numbers that a class guessed, ascending, by notebook and name; only names that
        somebody guessed."""
        by_name: dict[tuple[str, str], list[float]] = {}
        for notebook in self.notebooks:
            for sheet in self.sheets(notebook):
                for name, guess in sheet.guesses.items():
                    if isinstance(guess, float):
                        insort(by_name.setdefault((notebook, name), []), guess)
        return dict(sorted(by_name.items()))

    @property
    def notebooks(self) -> list[str]:
        return sorted({notebook for student in self.students for notebook in student.sheets})

    def sheets(self, notebook: str) -> list[Sheet]:
        """The sheets of a notebook that count."""
        return [student.sheets[notebook] for student in self.students if notebook in student.sheets]


Graded = tuple[Submission, Sheet]
"""A file and its grades."""


def gradebook(graded: Iterable[Graded]) -> Gradebook:
    """The grades of a class. Of several copies of a notebook the one with the most points counts,
    and of equal ones the first."""
    students: dict[str, Student] = {}
    for submission, sheet in graded:
        mine = students.setdefault(submission.student, Student(submission.student))
        mine.files.append(printable(submission.path.name))
        if sheet.problem:
            mine.problems.append(f"{printable(submission.path.name)}: {sheet.problem}")
        elif sheet.grades:
            mine.remarks += _remarks(submission, sheet)
            _count(mine, sheet)
    return Gradebook(tuple(students[name] for name in sorted(students)))


def _remarks(submission: Submission, sheet: Sheet) -> Iterator[str]:
    """Remarks about a file."""
    name = printable(submission.path.name)
    if submission.path.stem != sheet.notebook:
        yield f"{name}: renamed from {sheet.notebook}.ipynb."
    if sheet.is_empty:
        yield f"{name}: empty, without an answer."


def _count(student: Student, sheet: Sheet) -> None:
    """Count a sheet if it is better than the one so far."""
    other = student.sheets.get(sheet.notebook)
    if other is not None:
        best = (sheet if sheet.points > other.points else other).path
        name = printable(f"{best.parent.name}/{best.name}")
        student.remarks.append(f"{sheet.notebook}: handed in more than once, {name} counts.")
    if other is None or sheet.points > other.points:
        student.sheets[sheet.notebook] = sheet


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
