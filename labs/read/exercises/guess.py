"""A guess of a notebook, as a lab declares it: which figure it is about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from labs.read.exercises.exercise import Evidence


@dataclass(frozen=True)
class Guess:
    """`name` is the variable in the notebook's cell for guesses; the run is that of `condition`
    with the notebook's first values, on `kernel` if it is not the notebook's; `column` is the
    column of the lab's results that is guessed."""

    name: str
    notebook: str
    condition: str
    column: str
    kernel: str = ""


@dataclass(frozen=True)
class GuessedValue:
    """A guess of a figure that is in no column. `known` returns the prediction and the figure of
    the recorded runs; None for what is not known, as on testbeds where each machine differs."""

    name: str
    notebook: str
    unit: str
    known: Callable[[Evidence], tuple[float | None, float | None]]
