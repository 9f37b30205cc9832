"""A guess of a notebook, as a lab declares it: which figure of which run it is about."""

from __future__ import annotations

from dataclasses import dataclass


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
