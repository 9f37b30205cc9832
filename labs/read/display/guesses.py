"""Guesses next to predictions and measurements."""

from __future__ import annotations

import math
from collections.abc import Mapping

from labs.errors import BadInput
from labs.read.display.rich_output import Table

Guess = float | None
PREDICTED = "Predicted"
TITLES = ("Your guess", PREDICTED, "Measured")
RATIO = "Measured / guess"


def guesses(
    rows: Mapping[str, tuple[Guess, Guess, Guess]], unit: str, *, below: float = 0.0
) -> Table:
    """One row per guess: the guess, the prediction and the measurement; None is left empty, and
    the column of the predictions is left out if there are none. Predictions and measurements below
    `below` are meaningless: they have no figure and no ratio.

    `rows` has these three under the name of what was guessed. BadInput for a guess that is neither
    a number nor None.
    """
    for name, (guess, _, _) in rows.items():
        if guess is not None and (isinstance(guess, bool) or not isinstance(guess, int | float)):
            raise BadInput(
                f"the guess for {name} is not a number. Write a number in {unit}, or None"
            )
    columns = list(zip(*rows.values(), strict=True)) or [()] * len(TITLES)
    found = {
        f"{title} ({unit})": values
        for title, values in zip(TITLES, columns, strict=True)
        if title != PREDICTED or any(value is not None for value in values)
    }
    table = Table({"Guessed": list(rows), **found})
    table[RATIO] = [_ratio(guess, measured, below) for guess, _, measured in rows.values()]
    table = table.astype(dict.fromkeys([*found, RATIO], float))
    for title in list(found)[1:]:
        short = table[title] < below
        table[title] = table[title].astype(object).mask(short, f"below {below:g}")
    return table


def _ratio(guess: Guess, measured: Guess, below: float) -> float:
    return math.nan if not guess or measured is None or measured < below else measured / guess
