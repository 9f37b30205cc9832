"""What a lab declares of a notebook's exercises and guesses.

The right answer is computed from the theory and, where they exist, from runs. A declaration is an
`Expected`, or a function of the evidence that returns one if the answer depends on the kernel, on
drawn values or on a run:

    around(500, 486, pct=0.5, checked="the capacity").mistake(0.5, "This is per millisecond.")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from labs.drive.parameters.declare import Scalar
from labs.read.runs.run import Run
from labs.read.theory.bulk import LINK
from labs.read.theory.bulk_sender import RECEIVE_WINDOW, SEND_BUFFER

Answer = float | str
LIMITS = (LINK, RECEIVE_WINDOW, SEND_BUFFER)
"""The choices of a question about what limits a flow."""


@dataclass(frozen=True)
class Measured:
    """The value of a column in a run; without a run it has no name and no value."""

    run: str = ""
    value: Any = None

    def per(self, unit: float) -> Measured:
        """The same value in a larger unit."""
        return self if self.value is None else replace(self, value=self.value / unit)


class Evidence(Protocol):
    """The runs that an answer may be checked against (`labs.grading.run_evidence`)."""

    @property
    def kernel(self) -> str:
        """The kernel series that the answer is about."""

    @property
    def drawn(self) -> Mapping[str, Scalar]:
        """The values that a student's examination draws, by name; none outside examinations."""

    def run(self, condition: str, **parameters: Scalar) -> Run | None:
        """A run with the lab's defaults but for these parameters; None if there is none."""

    def measured(self, condition: str, column: str, **parameters: Scalar) -> Measured:
        """A column of the lab's results for that run."""


@dataclass(frozen=True)
class Mistake:
    """A wrong answer that has a known reason; `hint` says what was overlooked."""

    value: Answer
    hint: str


@dataclass(frozen=True)
class Expected:
    """The answers that are right, from `low` to `high` or the word `choice`, and what they were
    computed from."""

    checked: str
    low: float = 0.0
    high: float = 0.0
    choice: str = ""
    mistakes: tuple[Mistake, ...] = ()

    def is_right(self, answer: Answer) -> bool:
        if isinstance(answer, str):
            return answer.casefold() == self.choice.casefold()
        return not self.choice and self.low <= answer <= self.high

    def mistake(self, value: Answer | None, hint: str) -> Expected:
        """With one more mistake, unless its value is unknown, or a right answer here."""
        if value is None or self.is_right(value):
            return self
        return replace(self, mistakes=(*self.mistakes, Mistake(value, hint)))


def around(*values: float | Measured, checked: str, pct: float = 0.0) -> Expected:
    """Answers within `pct` per cent of any of these values, or between two of them. A measured
    value counts if there is one, and `checked` then names its run."""
    numbers = [value.value if isinstance(value, Measured) else value for value in values]
    numbers = [number for number in numbers if number is not None]
    low, high = min(numbers) * (1 - pct / 100), max(numbers) * (1 + pct / 100)
    return Expected(after_runs(checked, *values), low, high)


def after_runs(checked: str, *values: float | Measured) -> str:
    """What was computed, and the runs that were read."""
    runs = [value.run for value in values if isinstance(value, Measured) and value.run]
    return "; the run ".join([checked, *runs])


@dataclass(frozen=True)
class Exercise:
    """A question of a notebook whose answer is checked.

    `name` is the variable in the notebook's answer cell, `notebook` the stem of its file, `asks`
    a short form of the question. A numeric answer has a `unit`; any other is one of `choices`.
    """

    name: str
    notebook: str
    asks: str
    right: Expected | Callable[[Evidence], Expected]
    unit: str = ""
    choices: tuple[str, ...] = ()
    question: str = ""
    draws: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict, hash=False)

    def expected(self, runs: Evidence) -> Expected:
        """The right answers by this evidence, and the mistakes."""
        return self.right if isinstance(self.right, Expected) else self.right(runs)

    def examined(self, draws: Mapping[str, tuple[Scalar, ...]], question: str) -> Exercise:
        """With a question for examinations, in which names in braces are those of `draws`, each
        with the values that may be drawn for a student: the same in all exercises of a notebook."""
        return replace(self, draws=draws, question=question)


def drawn(runs: Evidence, name: str, usual: float) -> float:
    """A number in a question: the one drawn for the student, or the usual one."""
    return float(runs.drawn.get(name, usual))


@dataclass(frozen=True)
class Guess:
    """A guessed column of the lab's results. `name` is the variable in the notebook's cell for
    guesses; the run is that of `condition` with the notebook's first values, on `kernel` if it is
    not the notebook's."""

    name: str
    notebook: str
    condition: str
    column: str
    kernel: str = ""


def guesses(notebook: str, column: str, conditions: Mapping[str, str]) -> tuple[Guess, ...]:
    """The guesses of one column; `conditions` has the condition of each by name."""
    return tuple(Guess(name, notebook, condition, column) for name, condition in conditions.items())


@dataclass(frozen=True)
class GuessedValue:
    """A guess of a figure that is in no column. `figures` returns the prediction and the figure of
    the recorded runs; None for what is not known, as on testbeds where each machine differs."""

    name: str
    notebook: str
    unit: str
    figures: Callable[[Evidence], tuple[float | None, float | None]] = lambda runs: (None, None)
