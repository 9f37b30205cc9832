"""The guesses of a class beside the prediction of the theory and the measurement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import quantiles

from pandas import DataFrame
from plotly.graph_objects import Figure

from labs.catalog import LABS, find
from labs.grading.grade_sheet import RunEvidence
from labs.grading.gradebook import Gradebook
from labs.read.display.format import heading
from labs.read.exercises.exercise import Guess, of_lab
from labs.read.figures.style import (
    BLACK,
    BLUE,
    GREY,
    LEGEND_ABOVE,
    ORANGE,
    dressed,
    log_ticks,
    log_title,
)
from labs.read.lab import Lab

KERNEL = "6.1"
"""The kernel with which the notebooks begin."""
HEADS = ("Guess", "Guesses", "Lower quartile", "Median", "Upper quartile", "Predicted", "Measured")


@dataclass(frozen=True)
class Guesses:
    """The guesses of a class for one figure, its unit, prediction and measurement; None for what
    is not known of it."""

    notebook: str
    name: str
    numbers: Sequence[float]
    unit: str = ""
    predicted: float | None = None
    measured: float | None = None

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """The lower quartile, the median and the upper one; a single guess is all three."""
        if len(self.numbers) == 1:
            return (self.numbers[0],) * 3
        low, middle, high = quantiles(self.numbers, n=4, method="inclusive")
        return low, middle, high

    @property
    def row(self) -> tuple[object, ...]:
        """The cells below HEADS."""
        numbers = (*self.quartiles, self.predicted, self.measured)
        return (f"{self.notebook} {self.name}", len(self.numbers), *map(number, numbers))


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def guesses_of(book: Gradebook) -> list[Guesses]:
    """One entry per guess, in the order of the notebooks."""
    declared = {
        (guess.notebook, guess.name): (lab, guess)
        for lab in map(find, LABS)
        for guess in of_lab(lab)[1]
    }
    return [
        Guesses(*asked, numbers, *(_about(*declared[asked]) if asked in declared else ()))
        for asked, numbers in book.guesses.items()
    ]


def _about(lab: Lab, guess: Guess) -> tuple[str, float | None, float | None]:
    """The unit of a guess, the prediction and the measurement."""
    runs = RunEvidence(guess.kernel or KERNEL, lab)
    if guess.unit:
        return (guess.unit, *guess.known(runs))
    condition, _, name = guess.column.rpartition(".")
    column, run = lab.columns[name], runs.run(condition)
    values = lab.results(run).values if run else {}
    predicted = values.get(column.predicted_by) if column.predicted_by else None
    return column.unit, predicted, values.get(name)


def spread(rows: Sequence[Guesses]) -> Figure:
    """One row per figure: every guess, the middle half, the prediction and the measurement."""
    figure = Figure()
    for place, row in enumerate(rows):
        name = heading(row.name.removeprefix("guess_"), row.unit)
        _add_row(figure, row, name.replace(" (", "<br>("), legend=not place)
    figure.update_layout(legend=LEGEND_ABOVE)
    every = [x for trace in figure.data for x in trace.x if x is not None and x > 0]
    ticks = log_ticks(min(every) / 2, max(every) * 2) if every else None
    title = log_title("guess, in the unit of its row")
    figure.update_xaxes(title=title, type="log", tickvals=ticks)
    figure.update_yaxes(range=[len(rows) - 0.4, -0.6], type="category")
    text = "; ".join(
        f"{row.name}: median {number(row.quartiles[1])}, "
        f"measured {number(row.measured) or 'unknown'}"
        for row in rows
    )
    return dressed(
        figure,
        title="Guesses of the class",
        caption="measured: recorded run, initial values",
        height=190 + 54 * len(rows),
        tell=text,
        table=DataFrame([row.row for row in rows], columns=list(HEADS)),
    )


def _add_row(figure: Figure, row: Guesses, label: str, *, legend: bool) -> None:
    low, middle, high = row.quartiles
    above_0 = [guess for guess in row.numbers if guess > 0]
    tick = {"color": GREY, "symbol": "line-ns-open", "size": 14}
    bar = {"color": BLUE, "width": 9}
    add = partial(figure.add_scatter, showlegend=legend)
    add(x=above_0, y=[label] * len(above_0), name="guesses", mode="markers", marker=tick)
    add(x=[low, high], y=[label] * 2, name="middle half", mode="lines", line=bar, opacity=0.4)
    for name, value, symbol, colour in (
        ("median", middle, "circle", BLUE),
        ("predicted", row.predicted, "diamond-open", BLACK),
        ("measured", row.measured, "star", ORANGE),
    ):
        marker = {"color": colour, "symbol": symbol, "size": 13, "line": {"width": 2}}
        add(x=[value], y=[label], name=name, mode="markers", marker=marker)
