"""What a lab declares of a notebook's exercises and guesses, in its `exercises.toml`.

    [NOTEBOOK.NAME]         an exercise, by the variable in the notebook's answer cell
      asks                  a short form of the question
      unit, or choices      of a number; the words of which one is right
      given                 figures of the question, which are also the parameters of the runs
      right                 formulas: a number from the lowest to the highest of their values; of
                            words the first that is known
      pct                   how far a number may be outside, in % (default: 0)
      checked               what the values were computed from; runs that were read are added
      mistakes              wrong answers that have a known reason: formulas, or a word, by the hint
    [NOTEBOOK.guesses]      by the variable in the notebook's cell for guesses: a column of a
                            condition, with a kernel or without; or unit, given, and the formulas
                            predicted and measured; or unit alone, where each machine differs

A formula (`labs.read.claims.formulas`) refers to columns of conditions, as `default.p50_ms`; to
figures that are given; to attributes of the lab's `Figures`; and to KiB and MiB. `checked` and
hints are sentences with such figures (`labs.read.claims.formulas`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from labs.drive.parameters.declare import Scalar
from labs.guest.units import KIB, MIB
from labs.read.claims.formulas import describe, parse
from labs.read.lab import Lab
from labs.read.runs.run import Run

Answer = float | str
UNITS = {"KiB": KIB, "MiB": MIB}


@dataclass(frozen=True)
class Evidence:
    """What an answer is checked against: a kernel series, and no run. `labs.grading.grade_sheet`
    has the recorded runs."""

    kernel: str

    def run(self, condition: str, **parameters: Scalar) -> Run | None:
        """A run with the lab's defaults but for these parameters; None if there is none."""
        return None

    def column(self, run: Run, name: str) -> Any:
        """A column of the lab's results for a run."""


@dataclass(frozen=True)
class Figures:
    """The figures that the formulas of an exercise name. A lab adds attributes of its own; `seen`
    has the names of the runs that were read."""

    runs: Evidence
    given: Mapping[str, Scalar] = field(default_factory=dict)
    seen: dict[str, None] = field(default_factory=dict)

    @property
    def kernel(self) -> str:
        return self.runs.kernel

    def number(self, name: str) -> float:
        """A given figure."""
        return float(self.given[name])

    def run(self, condition: str) -> Run | None:
        """The run of a condition with what is given."""
        run = self.runs.run(condition, **self.given)
        if run is not None:
            self.seen[run.name] = None
        return run

    def look(self, name: str) -> Any:
        """The value of a reference."""
        if name in self.given:
            return self.given[name]
        condition, dot, column = name.rpartition(".")
        if not dot:
            return UNITS[name] if name in UNITS else getattr(self, name)
        run = self.run(condition)
        return None if run is None else self.runs.column(run, column)

    def values(self, formulas: str | Sequence[str]) -> list[Any]:
        """The values of formulas that are known."""
        listed = [formulas] if isinstance(formulas, str) else formulas
        values = [parse(formula).value(self.look) for formula in listed]
        return [value for value in values if value is not None]


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


@dataclass(frozen=True, kw_only=True, eq=False)
class Exercise:
    """A question of a notebook whose answer is checked; the fields are those of the file."""

    name: str
    notebook: str
    asks: str
    checked: str
    right: Sequence[str]
    pct: float = 0.0
    unit: str = ""
    choices: Sequence[str] = ()
    given: Mapping[str, Scalar] = field(default_factory=dict)
    mistakes: Mapping[str, Any] = field(default_factory=dict)
    figures: type[Figures] = Figures

    def expected(self, runs: Evidence) -> Expected:
        """The right answers by this evidence, and the mistakes that are wrong by it."""
        figures = self.figures(runs, self.given)
        values = figures.values(self.right)
        checked = "; the run ".join([describe(self.checked, figures.look), *figures.seen])
        if self.choices:
            right = Expected(checked, choice=values[0])
        else:
            share = self.pct / 100
            right = Expected(checked, min(values) * (1 - share), max(values) * (1 + share))
        mistakes = []
        for hint, formulas in self.mistakes.items():
            words = describe(hint, figures.look)
            wrong = [formulas] if self.choices else figures.values(formulas)
            mistakes += [Mistake(value, words) for value in wrong if not right.is_right(value)]
        return replace(right, mistakes=tuple(mistakes))


@dataclass(frozen=True, kw_only=True)
class Guess:
    """A guess in a notebook: of the `column` of a condition, with the notebook's first values, on
    `kernel` if it is not the notebook's; or of a figure in `unit` that is in no column."""

    name: str
    notebook: str
    column: str = ""
    kernel: str = ""
    unit: str = ""
    given: Mapping[str, Scalar] = field(default_factory=dict)
    predicted: Sequence[str] = ()
    measured: Sequence[str] = ()
    figures: type[Figures] = Figures

    def known(self, runs: Evidence) -> tuple[float | None, float | None]:
        """The prediction and the measurement of a figure that is in no column."""
        figures = self.figures(runs, self.given)
        both = (figures.values(formulas) for formulas in (self.predicted, self.measured))
        predicted, measured = (next(iter(values), None) for values in both)
        return predicted, measured


@cache
def of_lab(lab: Lab) -> tuple[tuple[Exercise, ...], tuple[Guess, ...]]:
    """The exercises and the guesses of a lab of the package, in the file beside its ledger; a lab
    of the reader's own has none."""
    path = lab.ledger and lab.ledger.with_name("exercises.toml")
    if path is None or lab.source or not path.is_file():
        return (), ()
    figures = getattr(lab.part("exercises"), "Figures", Figures)
    exercises, guesses = [], []
    for notebook, entries in tomllib.loads(path.read_text("utf-8")).items():
        of: Any = {"notebook": notebook, "figures": figures}
        for name, entry in entries.pop("guesses", {}).items():
            fields = {"column": entry} if isinstance(entry, str) else entry
            guesses.append(Guess(name=name, **of, **fields))
        for name, fields in entries.items():
            exercises.append(Exercise(name=name, **of, **fields))
    return tuple(exercises), tuple(guesses)
