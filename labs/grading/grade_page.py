"""The grades of a class as one page: points, the questions that failed most, and wrong answers by
their reason. It names students only for problems, remarks and equal sheets."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from statistics import median

from pandas import DataFrame
from plotly.graph_objects import Bar, Figure

from labs.grading.gradebook import Gradebook, Totals
from labs.read.display.format import printable
from labs.read.figures.offline_page import drawn_figures, offline_page
from labs.read.figures.style import BLUE, GREEN, GREY, LEGEND_ABOVE, VERMILION, dressed

MOST_REASONS = 5
NUMBER = re.compile(r"-?\d[\d.e+-]*")
NO_GRADES = "No notebook could be graded."
EQUAL = (
    "The students of a group have identical guesses and answers, some of them not right. This is a "
    "reason to ask, not a proof: they may have worked together."
)
EQUAL_HEADS = ("Group", "Notebook", "Students")


def grade_page(book: Gradebook) -> str:
    """The page. It has no date: the same submissions give the same bytes."""
    totals = sorted(book.totals, key=lambda total: (total.right / total.handed_in, total.question))
    graded = [student for student in book.students if student.sheets]
    lines = [
        f"{len(book.students)} students, {len(graded)} of them with graded notebooks; "
        f"{len(totals)} questions."
    ]
    body = ["<h1>Grades of a class</h1>", *map(_paragraph, lines)]
    if not graded:
        body.append(_paragraph(NO_GRADES))
    else:
        points, questions = drawn_figures([_histogram(book), _questions(totals)])
        body += ["<h2>Points</h2>", points, "<h2>Questions</h2>", questions]
        body += ["<h2>Wrong answers by reason</h2>", *_reasons(totals)]
    for title, listed in (
        (
            "Problems",
            [
                (student.name, " ".join(student.problems))
                for student in book.students
                if student.problems
            ],
        ),
        (
            "Remarks",
            [
                (student.name, " ".join(student.remarks))
                for student in book.students
                if student.remarks
            ],
        ),
    ):
        if listed:
            body += [f"<h2>{title}</h2>", table(("Student", title), listed)]
    if book.equal:
        rows = [
            (number, group.notebook, ", ".join(group.students))
            for number, group in enumerate(book.equal, 1)
        ]
        body += ["<h2>Equal sheets</h2>", _paragraph(EQUAL), table(EQUAL_HEADS, rows)]
    return offline_page("Grades of a class", body, narrows=True)


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table as HTML; columns of numbers to the right."""
    columns = [[str(row[place]) for row in rows] for place in range(len(heads))]
    sides = [
        "right" if all(NUMBER.fullmatch(cell) for cell in column if cell) else "left"
        for column in columns
    ]
    head = "".join(
        f'<th scope="col" style="text-align: {side}">{escape(head)}</th>'
        for head, side in zip(heads, sides, strict=True)
    )
    made = "".join(
        "<tr>"
        + "".join(
            f'<td style="text-align: {side}">{escape(printable(str(cell)))}</td>'
            for cell, side in zip(row, sides, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    whole = f"<table><thead><tr>{head}</tr></thead><tbody>{made}</tbody></table>"
    return f'<div class="table">{whole}</div>'


def _histogram(book: Gradebook) -> Figure:
    counted = Counter(student.points for student in book.students if student.sheets)
    most = len(book.totals)
    points = list(range(most + 1))
    students = [counted[point] for point in points]
    figure = Figure(Bar(x=points, y=students, marker={"color": BLUE}))
    figure.update_xaxes(title=f"points of {most}", dtick=max(1, most // 20))
    figure.update_yaxes(title="students")
    middle = median(counted.elements())
    return dressed(
        figure,
        title="Points per student",
        caption=f"{counted.total()} students with graded notebooks",
        height=340,
        tell=f"The median is {middle:g} of {most} points.",
        table=DataFrame({"points": points, "students": students}),
    )


def _questions(totals: Sequence[Totals]) -> Figure:
    """One bar per question, the one that failed most at the top."""
    labels = [f"{total.question}<br>{total.notebook}" for total in totals]
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
        tell=f"{first.question} has {first.right} of {first.handed_in} right.",
        table=DataFrame(
            {"question": labels, **{name: counts for name, (counts, _) in parts.items()}}
        ),
    )


def _reasons(totals: Sequence[Totals]) -> Iterator[str]:
    """A table per question, the one that failed most first."""
    for total in totals:
        if total.wrong:
            rows = [(count, hint) for hint, count in total.wrong.most_common(MOST_REASONS)]
            yield f"<h3>{escape(f'{total.question}: {total.asks}')}</h3>"
            yield table(("Answers", "Reason"), rows)
    if not any(total.wrong for total in totals):
        yield _paragraph("No answer is wrong.")
