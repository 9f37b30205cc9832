"""The grades and guesses of a class as text, and as one page that names no student: the questions
that failed most, wrong answers by their reason, guesses beside prediction and measurement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from pandas import DataFrame
from plotly.graph_objects import Bar, Figure

from labs.grading.gradebook import Gradebook, Totals
from labs.grading.guesses import HEADS, guesses_of, spread
from labs.read.display.rich_output import Table
from labs.read.figures.offline_page import drawn_figures, offline_page
from labs.read.figures.style import GREEN, GREY, LEGEND_ABOVE, VERMILION, dressed

MOST_REASONS = 5
NO_GRADES = "No notebook could be graded."


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
    labels = [f"{total.exercise.name}<br>{total.notebook}" for total in totals]
    parts = {
        "right": ([total.right for total in totals], GREEN),
        "wrong": ([total.answered - total.right for total in totals], VERMILION),
        "no answer": ([total.handed_in - total.answered for total in totals], GREY),
    }
    figure = Figure()
    for name, (counts, colour) in parts.items():
        figure.add_trace(
            Bar(y=labels, x=counts, name=name, orientation="h", marker={"color": colour})
        )
    figure.update_layout(barmode="stack", legend={**LEGEND_ABOVE, "traceorder": "normal"})
    figure.update_xaxes(title="notebooks")
    figure.update_yaxes(autorange="reversed", type="category")
    first = totals[0]
    return dressed(
        figure,
        title="Questions, hardest first",
        caption="the best notebook of each student",
        height=150 + 44 * len(totals),
        tell=f"{first.exercise.name} has {first.right} of {first.handed_in} right.",
        table=DataFrame(
            {"question": labels, **{name: counts for name, (counts, _) in parts.items()}}
        ),
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
