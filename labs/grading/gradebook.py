"""The grades of a class: one row per student, totals per question, and everybody's guesses."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from labs.grading.grade_sheet import Sheet
from labs.grading.submissions import Submission
from labs.read.display.format import printable
from labs.read.exercises.graded_answer import MISSING, RIGHT
from labs.read.exercises.graded_answer import Graded as Judged


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


def _reason(grade: Judged) -> str:
    if grade.verdict == MISSING:
        return "no answer."
    return grade.hint.removeprefix(f"{grade.exercise.name}: ")


@dataclass
class Totals:
    """How a class answered one question: `wrong` counts the hints of wrong answers."""

    notebook: str
    question: str
    asks: str
    right: int = 0
    answered: int = 0
    handed_in: int = 0
    wrong: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class EqualSheets:
    """Students with identical guesses and answers, some of them not right."""

    notebook: str
    students: tuple[str, ...]


@dataclass(frozen=True)
class Gradebook:
    """The students of a class by name, the groups with equal sheets, and the total per question."""

    students: tuple[Student, ...]
    equal: tuple[EqualSheets, ...] = ()

    @property
    def totals(self) -> list[Totals]:
        """One entry per question, in the order of the notebooks."""
        by_question: dict[tuple[str, str], Totals] = {}
        for notebook in self.notebooks:
            for sheet in self.sheets(notebook):
                for grade in sheet.grades:
                    name = grade.exercise.name
                    new = Totals(notebook, name, grade.exercise.asks)
                    mine = by_question.setdefault((notebook, name), new)
                    mine.handed_in += 1
                    mine.answered += grade.verdict != MISSING
                    mine.right += grade.verdict == RIGHT
                    if grade.verdict not in (RIGHT, MISSING):
                        mine.wrong[_reason(grade)] += 1
        return list(by_question.values())

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
    telling: dict[tuple[str, str], set[str]] = {}
    for submission, sheet in graded:
        mine = students.setdefault(submission.student, Student(submission.student))
        mine.files.append(printable(submission.path.name))
        if sheet.problem:
            mine.problems.append(f"{printable(submission.path.name)}: {sheet.problem}")
        elif sheet.grades:
            mine.remarks += _remarks(submission, sheet)
            _count(mine, sheet)
            if sheet.is_telling:
                telling.setdefault((sheet.notebook, sheet.content), set()).add(mine.name)
    equal = sorted(
        (notebook, sorted(names)) for (notebook, _), names in telling.items() if len(names) > 1
    )
    return Gradebook(
        tuple(students[name] for name in sorted(students)),
        tuple(EqualSheets(notebook, tuple(names)) for notebook, names in equal),
    )


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
