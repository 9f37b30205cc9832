"""Grade notebooks: compare the numbers in their answer cells with the theory and recorded runs.

Nothing is run, and a student's own runs do not count: anybody can change a run and seal it again,
and RUNS may name the folder of somebody else. In virtual time an unchanged run equals the recorded
one anyway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from labs.catalog import LABS, find
from labs.drive.parameters import declare
from labs.drive.parameters.declare import LabParameters, Scalar
from labs.drive.parameters.notebook_cell import from_globals, from_literals
from labs.errors import BadInput, LabError, Missing
from labs.grading.answers import ANSWER, GUESS, Given, answers, usable
from labs.grading.submissions import Submission
from labs.read.display.rich_output import Table
from labs.read.exercises import graded_answer
from labs.read.exercises.exercise import Answer, Evidence, Exercise, Expected, of_lab
from labs.read.exercises.graded_answer import MISSING, RIGHT, UNREADABLE, Graded, unanswered
from labs.read.lab import Lab
from labs.read.notebook_file import parameters, read_notebook
from labs.read.runs import recorded
from labs.read.runs.run import Run

NO_ANSWER = Given(None)


@dataclass(frozen=True)
class Sheet:
    """The grades of one notebook, none if it has no answer cells, and the guesses in it; `problem`
    says why it could not be graded."""

    path: Path
    notebook: str
    grades: tuple[Graded, ...] = ()
    problem: str = ""
    guesses: Mapping[str, Answer] = field(default_factory=dict)

    @property
    def points(self) -> int:
        return sum(grade.verdict == RIGHT for grade in self.grades)

    @property
    def is_empty(self) -> bool:
        """Whether no question has an answer, not even one that cannot be read."""
        return all(grade.verdict == MISSING for grade in self.grades)

    def as_json(self) -> dict[str, object]:
        return {
            "file": str(self.path),
            "notebook": self.notebook,
            "points": self.points,
            "of": len(self.grades),
            "problem": self.problem,
            "answers": [grade.as_json() for grade in self.grades],
            "guesses": dict(self.guesses),
        }


def grade_submission(submission: Submission) -> Sheet:
    """Grade a file that was handed in; what is not read has its problem."""
    if submission.problem:
        return Sheet(submission.path, submission.path.stem, problem=submission.problem)
    return grade_file(submission.path)


def grade_file(path: Path) -> Sheet:
    """Grade one notebook. One that cannot be graded has a problem instead of grades."""
    stem = path.stem
    try:
        notebook = read_notebook(path)
        stem = notebook.stem
        if not notebook.tagged(ANSWER):
            return Sheet(path, stem)
        lab, exercises = exercises_of(stem)
        p = from_literals(lab.Parameters, parameters(notebook))
        grades = _judged(exercises, answers(notebook), RunEvidence(p.kernels[0], lab))
        guessed = {
            name: given.answer
            for name, given in answers(notebook, GUESS).items()
            if given.answer is not None
        }
        return Sheet(path, stem, grades, "", guessed)
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
    return _judged(exercises, given, RunEvidence(p.kernels[0], lab))


def exercises_of(notebook: str) -> tuple[Lab, tuple[Exercise, ...]]:
    """The lab and the exercises of a notebook; BadInput for a notebook without exercises."""
    stems: list[str] = []
    for lab in map(find, LABS):
        every, _ = of_lab(lab)
        if exercises := tuple(exercise for exercise in every if exercise.notebook == notebook):
            return lab, exercises
        stems += [exercise.notebook for exercise in every]
    hint = declare.did_you_mean(notebook, stems) or "."
    raise BadInput(
        f"{notebook} has no graded exercises{hint} Notebooks with exercises: "
        f"{', '.join(sorted({*stems}))}"
    )


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


@dataclass(frozen=True)
class RunEvidence(Evidence):
    """The recorded runs of a lab on one kernel."""

    lab: Lab

    def run(self, condition: str, **parameters: Scalar) -> Run | None:
        """A run with the lab's defaults but for these parameters; None if there is none."""
        defaults: LabParameters = self.lab.Parameters(kernel=self.kernel)
        p = replace(defaults, only=condition, **parameters)  # type: ignore[arg-type]
        (wanted,) = self.lab.conditions(p)
        try:
            return recorded.equal_to(
                self.lab.name,
                wanted.as_json(),
                recorded_runs(self.lab.name),
                kernel=self.kernel,
                seed=p.seed,
                memory_mib=p.memory_mib,
            )
        except BadInput:
            return None

    def column(self, run: Run, name: str) -> Any:
        """A column of the lab's results for a run."""
        return self.lab.results(run).values[name]


@cache
def recorded_runs(lab: str) -> Sequence[Run]:
    """The recorded runs of a lab in virtual time; none without recorded data."""
    try:
        return recorded.in_virtual_time(lab, recorded.places(lab))
    except Missing:
        return ()
