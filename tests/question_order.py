"""Whether a notebook asks before it answers: `python -m tests.question_order` lists the faults.

A cell tagged `predict` asks. The first code cell that shows the answer is tagged `answers:ID`, with
the id of the cell that asks. A cell tagged `answer` asks, too, and `labs.grade` answers.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import nbformat

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
ANSWERS, PREDICT, EXERCISE, SOLUTION = "answers:", "predict", "answer", "solution"
GRADE = "labs.grade"
FIRST = "the first question"
QUIET = {
    "display",
    "machines",
    "pandas",
    "seen",
    "study",
    "labs.check",
    "labs.check_capture",
    "labs.explain",
    "labs.sharing.jain",  # of typed-in rates
    "labs.study",
    "labs.testbeds",
    "labs.topology",
    "pandas.concat",
    "seen.capture",
    "study.commands",
    "study.kernels",
    "study.link",
    "study.on_testbed",
}
"""What a cell may use while a question is open: parameters, the list of runs, and the link."""
EVIDENCE = {
    ("01-buffers-and-bdp", "httping"): "what a tool reports, not how large the buffers must be",
    ("07-two-witnesses", "bounds"): "one testbed alone, without the ratio",
    ("07-two-witnesses", "repetitions"): "one testbed alone, without the ratio",
    ("09-explain-your-own", "longest"): "packets without a reason",
}
"""Cells that show something while a question is open, but not its answer."""
PASSING_ON = {"labs.charts.steps.of", "study.results", "study.run", "study.with_conditions"}
"""These do not say which figure or table a cell shows."""


def faults(book: Any, stem: str) -> list[str]:
    """What is wrong with the order of questions and answers in a notebook."""
    asking = [cell.id for cell in book.cells if PREDICT in tags_of(cell)]
    given = [one for cell in book.cells for one in answered_by(cell)]
    unknown = [f"{ANSWERS}{one} names no cell tagged {PREDICT}" for one in {*given} - {*asking}]
    untold = [one for one in asking if given.count(one) != 1]
    return [
        *unknown,
        *(
            f"{given.count(one)} cells are {ANSWERS}{one}. {_advice(book, stem, one)}"
            for one in untold
        ),
        *_out_of_order(book, stem, {*asking} - {*untold}),
        *_shown_before(book),
    ]


def tags_of(cell: Any) -> set[str]:
    return set(cell.metadata.get("tags", []))


def solves(cell: Any) -> bool:
    return cell.cell_type == "code" and SOLUTION in tags_of(cell)


def answered_by(cell: Any) -> set[str]:
    """The ids of the questions that a cell is the first to answer; a solution answers none."""
    told = set() if solves(cell) or cell.cell_type != "code" else tags_of(cell)
    return {tag.removeprefix(ANSWERS) for tag in told if tag.startswith(ANSWERS)}


def used(cell: Any) -> set[str]:
    """What a code cell uses of earlier cells, with attributes, such as `study.link`."""
    nodes = [*ast.walk(ast.parse(cell.source))] if cell.cell_type == "code" else []
    own = {one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    inner = {id(one.value) for one in nodes if isinstance(one, ast.Attribute)}
    chains = {
        ast.unparse(one)
        for one in nodes
        if isinstance(one, ast.Attribute | ast.Name) and id(one) not in inner
    }
    names = {one for one in chains if one.replace(".", "_").isidentifier()}
    return {one for one in names if one.split(".")[0] not in own | {*dir(builtins), "p"}}


def results_of(cell: Any) -> set[str]:
    """What a code cell uses that may show a result."""
    quiet = tuple(f"{one}." for one in QUIET if "." in one)
    return {one for one in used(cell) if one not in QUIET and not one.startswith(quiet)}


def _advice(book: Any, stem: str, question: str) -> str:
    """Which cell to tag: the first after the question that shows a result."""
    place = [cell.id for cell in book.cells].index(question)
    shows = (
        cell.id
        for cell in book.cells[place:]
        if results_of(cell) and not solves(cell) and (stem, cell.id) not in EVIDENCE
    )
    return f"Tag the first that shows the answer, such as {next(shows, 'a new one')}"


def _out_of_order(book: Any, stem: str, questions: set[str]) -> Iterator[str]:
    """Answers before their question; results and solutions before the answer to an open question,
    or before the first question."""
    open_ = [FIRST] if questions else []
    for cell in book.cells:
        tags, answers = tags_of(cell), answered_by(cell) & questions
        yield from (f"{cell.id} answers {one}, which comes later" for one in answers - {*open_})
        if GRADE in used(cell):
            answers |= {*open_} - questions
        shown = {"a solution"} if solves(cell) else results_of(cell)
        if open_ and shown and not answers and (stem, cell.id) not in EVIDENCE:
            yield f"{cell.id} shows {_list(shown)} before the answer to {_list(open_)}"
        if PREDICT in tags:
            answers |= {FIRST}
        open_ = [one for one in open_ if one not in answers]
        if cell.id in questions or EXERCISE in tags:
            open_ += [cell.id]
    yield from (f"{one} is never answered" for one in open_)


def _shown_before(book: Any) -> Iterator[str]:
    """Cells before a question that show the same as the cell that answers it."""
    places = {cell.id: place for place, cell in enumerate(book.cells)}
    for answer in book.cells:
        for question in answered_by(answer) & {*places}:
            for cell in book.cells[: places[question]]:
                if same := _same(cell, answer):
                    yield f"{cell.id} shows {_list(same)}, and {question} asks for it later"


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _same(one: Any, other: Any) -> set[str]:
    """What two cells both show. If both name conditions, they must share one."""
    both = (results_of(one) & results_of(other)) - PASSING_ON
    both = {name for name in both if "." in name}
    if not both or (_texts(one) and _texts(other) and not _texts(one) & _texts(other)):
        return set()
    return both


def _texts(cell: Any) -> set[str]:
    found = (one.value for one in ast.walk(ast.parse(cell.source)) if isinstance(one, ast.Constant))
    return {one for one in found if isinstance(one, str)}


if __name__ == "__main__":
    for path in NOTEBOOKS:
        for fault in faults(nbformat.read(path, as_version=4), path.stem):
            print(f"{path.stem}: {fault}")
