"""The grades and guesses of a class as text, and as one page that names no student: the questions
that failed most, wrong answers by their reason, guesses beside prediction and measurement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from statistics import quantiles

from pandas import DataFrame
from plotly.graph_objects import Bar, Figure

from labs.catalog import LABS, find
from labs.grading.grade_sheet import RunEvidence
from labs.grading.gradebook import Gradebook, Totals
from labs.read.display.format import heading
from labs.read.display.rich_output import Table
from labs.read.exercises.exercise import Guess, of_lab
from labs.read.figures.offline_page import drawn_figures, offline_page
from labs.read.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    LEGEND_ABOVE,
    ORANGE,
    VERMILION,
    dressed,
    log_ticks,
    log_title,
)
from labs.read.lab import Lab

MOST_REASONS = 5
NO_GRADES = "No notebook could be graded."
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


def grade_page(book: Gradebook) -> str:
    """The page. It has no date: the same submissions give the same bytes."""
    totals = sorted(
        book.totals, key=lambda total: (total.right / total.handed_in, total.exercise.name)
    )
    graded = [student for student in book.students if student.sheets]
    count = f"{len(book.students)} students, {len(graded)} of them with graded notebooks; "
    body = ["<h1>Grades of a class</h1>", _paragraph(f"{count}{len(totals)} questions.")]
    if not graded:
        body.append(_paragraph(NO_GRADES))
    else:
        body += _charts(book, totals)
    return offline_page("Grades of a class", body, narrows=True)


def _charts(book: Gradebook, totals: Sequence[Totals]) -> Iterator[str]:
    """Questions with the reasons of wrong answers, and guesses by notebook."""
    rows = guesses_of(book)
    notebooks = sorted({row.notebook for row in rows})
    figures = [_questions(totals)]
    figures += [spread([row for row in rows if row.notebook == name]) for name in notebooks]
    questions, *guesses = drawn_figures(figures)
    yield from ("<h2>Questions</h2>", questions)
    yield from ("<h2>Wrong answers by reason</h2>", *_reasons(totals))
    for name, drawn in zip(notebooks, guesses, strict=True):
        yield from (f"<h2>Guesses, {escape(name)}</h2>", drawn)
    if rows:
        yield _table(HEADS, [row.row for row in rows])


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    return f'<div class="table">{Table(rows, columns=list(heads))._repr_html_()}</div>'


def _questions(totals: Sequence[Totals]) -> Figure:
    """One bar per question, the one that failed most at the top."""
    first = totals[0]
    table = DataFrame(
        {
            "question": [f"{total.exercise.name}<br>{total.notebook}" for total in totals],
            "right": [total.right for total in totals],
            "wrong": [total.answered - total.right for total in totals],
            "no answer": [total.handed_in - total.answered for total in totals],
        }
    )
    figure = Figure()
    for name, colour in (("right", GREEN), ("wrong", VERMILION), ("no answer", GREY)):
        bar = {"name": name, "orientation": "h", "marker": {"color": colour}}
        figure.add_trace(Bar(y=table["question"], x=table[name], **bar))
    figure.update_layout(barmode="stack", legend={**LEGEND_ABOVE, "traceorder": "normal"})
    figure.update_xaxes(title="notebooks")
    figure.update_yaxes(autorange="reversed", type="category")
    return dressed(
        figure,
        title="Questions, hardest first",
        caption="the best notebook of each student",
        height=150 + 44 * len(totals),
        tell=f"{first.exercise.name} has {first.right} of {first.handed_in} right.",
        table=table,
    )


def _reasons(totals: Sequence[Totals]) -> Iterator[str]:
    """A table per question, the one that failed most first."""
    for total in totals:
        if total.wrong:
            rows = [(count, hint) for hint, count in total.wrong.most_common(MOST_REASONS)]
            yield f"<h3>{escape(f'{total.exercise.name}: {total.exercise.asks}')}</h3>"
            yield _table(("Answers", "Reason"), rows)
    if not any(total.wrong for total in totals):
        yield _paragraph("No answer is wrong.")


def describe(book: Gradebook) -> Iterator[str]:
    """The totals per question with the commonest hint, then the guesses; lines of text."""
    sheets = sum(len(student.sheets) for student in book.students)
    yield f"{len(book.students)} students, {sheets} notebooks"
    for total in book.totals:
        yield (
            f"  {total.notebook} {total.exercise.name}: {total.right} of {total.handed_in} right, "
            f"{total.handed_in - total.answered} without an answer"
        )
        yield from (f"      {count} x {hint}" for hint, count in total.wrong.most_common(3))
    for row in guesses_of(book):
        name, count, low, middle, high, predicted, measured = row.row
        yield (
            f"  {name}: {count} guesses, median {middle}, half of them from {low} to {high}; "
            f"predicted {predicted or 'unknown'}, measured {measured or 'unknown'}"
        )
    for student in book.students:
        yield from (f"  {student.name}: {remark}" for remark in student.remarks)
