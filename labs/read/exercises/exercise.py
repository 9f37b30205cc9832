"""An exercise with an answer that can be checked, as a lab declares it.

The right answer is never written down: `expected` computes it from the theory and, where they
exist, from runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from labs.drive.parameters.declare import Scalar
from labs.read.runs.run import Run

Answer = float | str


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


@dataclass(frozen=True)
class Mistake:
    """A wrong answer that has a known reason; `hint` says what was overlooked."""

    value: Answer
    hint: str


@dataclass(frozen=True)
class Expected:
    """The answers that are right: from `low` to `high`, or the word `choice`.

    `checked` says in words what they were computed from.
    """

    checked: str
    low: float = 0.0
    high: float = 0.0
    choice: str = ""
    mistakes: tuple[Mistake, ...] = ()


@dataclass(frozen=True)
class Exercise:
    """A question of a notebook whose answer is checked.

    `name` is the variable in the notebook's answer cell, `notebook` the stem of its file, `asks`
    a short form of the question. A numeric answer has a `unit`; any other is one of `choices`.
    In an examination the question is `question`, in which names in braces are those of `draws`,
    each with the values that may be drawn for a student. All exercises of a notebook have the same
    values under one name. An exercise without `question` is not asked.
    """

    name: str
    notebook: str
    asks: str
    expected: Callable[[Evidence], Expected]
    unit: str = ""
    choices: tuple[str, ...] = ()
    question: str = ""
    draws: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict, hash=False)


def drawn(runs: Evidence, name: str, usual: float) -> float:
    """A number in a question: the one drawn for the student, or the usual one."""
    return float(runs.drawn.get(name, usual))


def around(
    values: tuple[float, ...], tolerance_pct: float, checked: str, *mistakes: Mistake
) -> Expected:
    """Answers within a tolerance of any of these values, or between two of them."""
    return Expected(
        checked,
        low=min(values) * (1 - tolerance_pct / 100),
        high=max(values) * (1 + tolerance_pct / 100),
        mistakes=mistakes,
    )
