"""Grade notebooks: compare the numbers in their answer cells with the theory and recorded runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from labs.catalog import LABS, find
from labs.drive.parameters import declare
from labs.drive.parameters.declare import LabParameters
from labs.drive.parameters.notebook_cell import from_globals, from_literals
from labs.drive.record.seal import digest
from labs.errors import BadInput, LabError
from labs.grading.answers import ANSWER, GUESS, Given, answers, usable
from labs.grading.examination import QUESTIONS, Drawn, drawn_for
from labs.grading.run_evidence import RunEvidence
from labs.grading.submissions import Submission
from labs.read.display.rich_output import Table
from labs.read.exercises import graded_answer
from labs.read.exercises.exercise import Answer, Exercise, Expected, of_lab
from labs.read.exercises.graded_answer import MISSING, RIGHT, UNREADABLE, Graded, unanswered
from labs.read.lab import Lab
from labs.read.notebook_file import NotebookFile, parameters, read_notebook

NO_ANSWER = Given(None)


CHECK = "labs.grade("
"""In the cell that shows hints to the student."""
MOST_SHOWN = 100_000


@dataclass(frozen=True)
class Sheet:
    """The grades of one notebook, none if it has no answer cells, and the guesses in it; `problem`
    says why it could not be graded. `hints` counts the hints in the last check that the saved
    notebook shows, `content` is the digest of its answers and guesses, and `drawn_for` the student
    for whom an examination was drawn."""

    path: Path
    notebook: str
    grades: tuple[Graded, ...] = ()
    problem: str = ""
    guesses: Mapping[str, Answer] = field(default_factory=dict)
    hints: int = 0
    content: str = ""
    drawn_for: str = ""

    @property
    def points(self) -> int:
        return sum(grade.verdict == RIGHT for grade in self.grades)

    @property
    def is_empty(self) -> bool:
        """Whether no question has an answer, not even one that cannot be read."""
        return all(grade.verdict == MISSING for grade in self.grades)

    @property
    def is_telling(self) -> bool:
        """Whether an equal sheet is unlikely to be chance: this one has a guess and an answer that
        is not right. Right answers are always equal."""
        return bool(self.guesses) and any(
            grade.verdict not in (RIGHT, MISSING) for grade in self.grades
        )

    def as_json(self) -> dict[str, object]:
        return {
            "file": str(self.path),
            "notebook": self.notebook,
            "points": self.points,
            "of": len(self.grades),
            "problem": self.problem,
            "answers": [grade.as_json() for grade in self.grades],
            "guesses": dict(self.guesses),
            "hints": self.hints,
        }


def grade_submission(submission: Submission, seeds: Mapping[str, str] | None = None) -> Sheet:
    """Grade a file that was handed in; what is not read has its problem."""
    if submission.problem:
        return Sheet(submission.path, submission.path.stem, problem=submission.problem)
    return grade_file(submission.path, seeds)


def grade_file(path: Path, seeds: Mapping[str, str] | None = None) -> Sheet:
    """Grade one notebook; with `seeds` the copy of an examination. A notebook that cannot be graded
    has a problem instead of grades."""
    stem = path.stem
    try:
        notebook = read_notebook(path)
        stem = notebook.stem
        if not notebook.tagged(ANSWER):
            return Sheet(path, stem)
        stem = _renamed(notebook) or stem
        lab, exercises = exercises_of(stem)
        guessed = {
            name: given.answer
            for name, given in answers(notebook, GUESS).items()
            if given.answer is not None
        }
        drawn = _drawn(notebook, seeds, exercises)
        grades = _grades(notebook, lab, exercises, drawn)
        written = "\0".join(cell.source for cell in notebook.tagged(ANSWER, GUESS))
        content = digest(written.encode())
        student = "" if drawn is None else drawn.student
        hints = _hints_shown(notebook.content)
        return Sheet(path, stem, grades, "", guessed, hints, content, student)
    except LabError as error:
        return Sheet(path, stem, problem=str(error))


def grade(notebook: str, names: Mapping[str, Any]) -> Table:
    """One row per exercise of a notebook, from the notebook's `globals()`.

    BadInput for an unknown notebook or invalid parameters.
    """
    grades = graded(notebook, names)
    return Table(
        {
            "Question": [grade.exercise.asks for grade in grades],
            "Your answer": [grade.answer for grade in grades],
            "Unit": [grade.exercise.unit for grade in grades],
            "Result": [
                "no answer yet" if grade.verdict == MISSING else grade.verdict for grade in grades
            ],
            "Hint": [grade.hint for grade in grades],
        }
    )


def graded(notebook: str, names: Mapping[str, Any]) -> tuple[Graded, ...]:
    """The exercises of a notebook, graded by the values of its `globals()`. BadInput as `grade`."""
    lab, exercises = exercises_of(notebook)
    p = from_globals(lab.Parameters, names, besides=[exercise.name for exercise in exercises])
    given = {exercise.name: usable(names.get(exercise.name)) for exercise in exercises}
    return _judged(exercises, given, RunEvidence(lab, p.kernels[0]))


def exercises_of(notebook: str) -> tuple[Lab, tuple[Exercise, ...]]:
    """The lab and the exercises of a notebook; BadInput for a notebook without exercises."""
    stems: list[str] = []
    for lab in map(find, LABS):
        every = _exercises(lab)
        if exercises := tuple(exercise for exercise in every if exercise.notebook == notebook):
            return lab, exercises
        stems += [exercise.notebook for exercise in every]
    hint = declare.did_you_mean(notebook, stems) or "."
    raise BadInput(
        f"{notebook} has no graded exercises{hint} Notebooks with exercises: "
        f"{', '.join(sorted({*stems}))}"
    )


def _hints_shown(content: Mapping[str, Any]) -> int:
    """How many hints the table of the last check has, as it was saved; the last column has them."""
    shown = 0
    for cell in content["cells"]:
        outputs = cell.get("outputs") if CHECK in "".join(cell["source"]) else None
        for output in outputs if isinstance(outputs, list) else ():
            data = output.get("data") if isinstance(output, dict) else None
            html = data.get("text/html", "") if isinstance(data, dict) else ""
            lines = html if isinstance(html, list) else [html]
            text = "".join(line for line in lines if isinstance(line, str))[:MOST_SHOWN]
            rows = (row.partition("<tr>")[2] for row in text.split("</tr>")[:-1])
            shown += sum(not row.endswith("></td>") for row in rows if "<td" in row)
    return shown


def _renamed(notebook: NotebookFile) -> str:
    """The name of a notebook whose file has another one: the one with the same questions."""
    asked = answers(notebook).keys()
    every = [exercise for lab in map(find, LABS) for exercise in _exercises(lab)]
    if notebook.stem in {exercise.notebook for exercise in every}:
        return ""
    names = {
        exercise.notebook: {other.name for other in every if other.notebook == exercise.notebook}
        for exercise in every
    }
    return next((stem for stem, questions in names.items() if questions == asked), "")


def _exercises(lab: Lab) -> tuple[Exercise, ...]:
    exercises, _ = of_lab(lab)
    return exercises


def _drawn(
    notebook: NotebookFile, seeds: Mapping[str, str] | None, exercises: Sequence[Exercise]
) -> Drawn | None:
    """The values of an examination; None for any other notebook."""
    if seeds is not None:
        return drawn_for(notebook.content, seeds, exercises)
    if any(QUESTIONS in cell["metadata"].get("tags", []) for cell in notebook.content["cells"]):
        raise BadInput("It is the copy of an examination. Name the list of students with --seeds")
    return None


def _grades(
    notebook: NotebookFile, lab: Lab, exercises: Sequence[Exercise], drawn: Drawn | None
) -> tuple[Graded, ...]:
    p = _parameters(notebook, lab)
    if drawn is None:
        return _judged(exercises, answers(notebook), RunEvidence(lab, p.kernels[0]))
    asked = [exercise for exercise in exercises if exercise.question]
    runs = RunEvidence(lab, p.kernels[0], drawn.values)
    return _judged(asked, answers(notebook), runs)


def _parameters(notebook: NotebookFile, lab: Lab) -> LabParameters:
    p: LabParameters = from_literals(lab.Parameters, parameters(notebook))
    return p


def _judged(
    exercises: Sequence[Exercise], given: Mapping[str, Given], runs: RunEvidence
) -> tuple[Graded, ...]:
    grades = []
    for exercise in exercises:
        mine = given.get(exercise.name, NO_ANSWER)
        if mine.problem:
            grades.append(
                Graded(exercise, None, UNREADABLE, f"{exercise.name}: {mine.problem}.", "")
            )
        elif mine.answer is None:
            grades.append(unanswered(exercise))
        else:
            grades.append(graded_answer.grade(exercise, mine.answer, _expected(exercise, runs)))
    return tuple(grades)


@cache
def _expected(exercise: Exercise, runs: RunEvidence) -> Expected:
    """The right answer, the same for all."""
    return exercise.expected(runs)
