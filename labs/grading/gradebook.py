"""The grades of a class: one row per student, totals per question, and everybody's guesses."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles

from labs.errors import BadInput
from labs.grading.grade_sheet import Sheet
from labs.read.exercises.exercise import Answer
from labs.read.exercises.graded_answer import MISSING, RIGHT

MOODLE = re.compile(r"(?P<name>.+)_(?P<number>\d+)_assignsubmission_\w+")
"""The folder of one student in the archive of all submissions of a Moodle assignment."""
PARTICIPANT = re.compile(r".+ \((?P<number>\d+)\)")
WORKSHEET = ("Identifier", "Grade", "Last modified (grade)")
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A cell that begins with one of these is a formula for a spreadsheet."""
NBGRADER = (
    *("assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email"),
    *("raw_score", "late_submission_penalty", "score", "max_score"),
)
"""The columns that `nbgrader export` writes (nbgrader/plugins/export.py, CsvExportPlugin)."""


@dataclass(frozen=True)
class Submission:
    """The graded notebook of one student."""

    student: str
    sheet: Sheet


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
class Guesses:
    """The guesses of a class under one name: the number of guesses, their quartiles and range."""

    notebook: str
    name: str
    numbers: tuple[float, ...]

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """The lower quartile, the median and the upper one; a single guess is all three."""
        if len(self.numbers) == 1:
            return (self.numbers[0],) * 3
        low, middle, high = quantiles(self.numbers, n=4, method="inclusive")
        return low, middle, high


def student_of(path: Path, root: Path) -> str:
    """Who handed a notebook in: the first folder below `root`, or the name of the file.

    Of a folder that Moodle named, the name and the number of the participant.
    """
    inside = path.relative_to(root).parts if path.is_relative_to(root) else (path.name,)
    if len(inside) < 2:
        return path.stem
    found = MOODLE.fullmatch(inside[0])
    return f"{found['name']} ({found['number']})" if found else inside[0]


def best(submissions: Iterable[Submission]) -> dict[tuple[str, str], Sheet]:
    """The graded sheets by student and notebook; of several the one with the most points."""
    found: dict[tuple[str, str], Sheet] = {}
    for one in submissions:
        place = (one.student, one.sheet.notebook)
        if one.sheet.grades and (place not in found or one.sheet.points > found[place].points):
            found[place] = one.sheet
    return dict(sorted(found.items()))


def totals(sheets: Mapping[tuple[str, str], Sheet]) -> list[Totals]:
    """One entry per question, in the order of the notebooks."""
    found: dict[tuple[str, str], Totals] = {}
    for (_, notebook), sheet in sorted(sheets.items(), key=lambda item: item[0][1]):
        for one in sheet.grades:
            name = one.exercise.name
            mine = found.setdefault((notebook, name), Totals(notebook, name, one.exercise.asks))
            mine.handed_in += 1
            mine.answered += one.verdict != MISSING
            mine.right += one.verdict == RIGHT
            if one.verdict not in (RIGHT, MISSING):
                mine.wrong[one.hint] += 1
    return list(found.values())


def guesses(sheets: Mapping[tuple[str, str], Sheet]) -> list[Guesses]:
    """The numbers that a class guessed, by notebook and name, without names that nobody guessed."""
    found: dict[tuple[str, str], list[float]] = {}
    for (_, notebook), sheet in sheets.items():
        for name, guess in sheet.guesses.items():
            if isinstance(guess, float):
                found.setdefault((notebook, name), []).append(guess)
    return [
        Guesses(notebook, name, tuple(sorted(numbers)))
        for (notebook, name), numbers in sorted(found.items())
    ]


def as_csv(sheets: Mapping[tuple[str, str], Sheet]) -> str:
    """One row per student: the points of each notebook and in total, 1 or 0 per question, and the
    guesses; an empty cell where nothing was handed in."""
    points = sorted({notebook for _, notebook in sheets})
    questions = [(one.notebook, one.question) for one in totals(sheets)]
    guessed = [(one.notebook, one.name) for one in guesses(sheets)]
    head = ["student", *(f"{one} points" for one in points), "total", "of"]
    head += [f"{notebook} {name}" for notebook, name in (*questions, *guessed)]
    rows = []
    for student in sorted({who for who, _ in sheets}):
        mine = {notebook: sheet for (who, notebook), sheet in sheets.items() if who == student}
        marks = {
            (notebook, one.exercise.name): int(one.verdict == RIGHT)
            for notebook, sheet in mine.items()
            for one in sheet.grades
        }
        guess = {
            (notebook, name): value
            for notebook, sheet in mine.items()
            for name, value in sheet.guesses.items()
        }
        row: list[Answer | int | None] = [student]
        row += [mine[one].points if one in mine else None for one in points]
        row += [sum(sheet.points for sheet in mine.values()), len(questions)]
        row += [marks.get(one) for one in questions]
        row += [guess.get(one) for one in guessed]
        rows.append(row)
    return _written(head, rows)


def as_nbgrader(sheets: Mapping[tuple[str, str], Sheet]) -> str:
    """One row per student and notebook, with the columns that nbgrader exports."""
    rows = [
        (notebook, *(None, None), student, *(None,) * 3, sheet.points, 0, sheet.points, most)
        for (student, notebook), sheet in sheets.items()
        for most in (len(sheet.grades),)
    ]
    return _written(NBGRADER, rows)


def as_moodle(sheets: Mapping[tuple[str, str], Sheet]) -> str:
    """The grading worksheet of a Moodle assignment: the total points of each participant.

    Moodle needs these three columns, named in the language of the site
    (mod/assign/feedback/offline/importgradeslib.php). BadInput without folders that it named.
    """
    points: Counter[str] = Counter()
    for (student, _), sheet in sheets.items():
        if found := PARTICIPANT.fullmatch(student):
            points[found["number"]] += sheet.points
    if not points:
        raise BadInput(
            "no folder is named as Moodle names those of participants "
            "(NAME_NUMBER_assignsubmission_file). Use --csv, or Moodle's archive of all submissions"
        )
    rows = [(f"Participant {number}", grade, "-") for number, grade in points.items()]
    return _written(WORKSHEET, rows)


def _written(head: Sequence[str], rows: Iterable[Sequence[Answer | int | None]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(head)
    writer.writerows([_cell(one) for one in row] for row in rows)
    return out.getvalue()


def _cell(value: Answer | int | None) -> Answer | int | None:
    """A text that a spreadsheet would compute is quoted."""
    formula = isinstance(value, str) and len(value) > 1 and value.startswith(FORMULA)
    return f"'{value}" if formula else value


def in_words(sheets: Mapping[tuple[str, str], Sheet]) -> Iterator[str]:
    """The totals per question with the commonest hint, then the guesses; lines of text."""
    students = len({student for student, _ in sheets})
    yield f"{students} students, {len(sheets)} notebooks"
    for one in totals(sheets):
        yield (
            f"  {one.notebook} {one.question}: {one.right} of {one.handed_in} right, "
            f"{one.handed_in - one.answered} without an answer"
        )
        yield from (f"      {count} x {hint}" for hint, count in one.wrong.most_common(3))
    for guess in guesses(sheets):
        low, middle, high = (f"{value:.4g}" for value in guess.quartiles)
        yield (
            f"  {guess.notebook} {guess.name}: {len(guess.numbers)} guesses, median {middle}, "
            f"half of them from {low} to {high}"
        )
