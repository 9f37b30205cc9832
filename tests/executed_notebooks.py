"""The sentences, figures and tables in the sections of an executed notebook."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import unescape
from typing import Any

import nbformat

from labs.publish.execute import execute, open_notebook
from labs.publish.page_parameters import Scalar
from labs.read.display.format import in_digits, in_three_digits
from labs.read.display.transfer import BOUNDS
from labs.read.notebook_file import FIGURE, NotebookFile
from labs.read.theory.bulk import LINK
from labs.read.theory.bulk_sender import RECEIVE_WINDOW, SEND_BUFFER
from tests.shown_conditions import STUDIES

RESULTS = "results of the study: "
DUMP = f"print({RESULTS!r} + study.results().to_json(orient='records'))"
ALL_KERNELS, ONE_KERNEL = '("5.10", "6.1", "6.12", "7.2")', '("6.1",)'
"""Runs on further kernels are many, and add no sentence of another kind."""
SENTENCE = re.compile(r"(?<=[.?])\s+|\n")
NAMED = {
    "largest send buffer": BOUNDS[SEND_BUFFER],
    "largest receive buffer": BOUNDS[RECEIVE_WINDOW],
    "BDP": BOUNDS[LINK],
}
"""The line of a timeline that is the limit, and the same limit in a sentence."""
LIMIT = re.compile(r"limited by:? ([^.,;)]+)")
BOLD = re.compile(r"<b>(?:the link )?limits</b>")
CONDITION = re.compile("condition “(.+?)”")
ARTICLE = re.compile(r"article(?!-)")
"""Not the conditions whose names begin with it."""
OTHER_LIMIT = re.compile(r"(?:window|buffer|link|rate) (?:limits|limited) the (?:sender|goodput)")
SAID = {
    r"([\d.,]+) MiB/s over the whole file": ("goodput_mib_s", in_three_digits),
    r"whole file, ([\d.,]+) in the last third": ("steady_mib_s", in_three_digits),
    r"predicted ([\d.,]+), in steady": ("predicted_mean_mib_s", in_three_digits),
    r"predicted [\d.,]+, in steady state ([\d.,]+),": ("predicted_mib_s", in_three_digits),
    r"([\d.,]+) MiB/s in steady state with": ("steady_mib_s", in_three_digits),
    r"in flight; predicted ([\d.,]*\d)": ("predicted_mib_s", in_three_digits),
    r"([\d,]+) bytes of data in": ("recv_q", in_digits),
    r"bytes of data in ([\d,]+) bytes": ("skmem_r", in_digits),
    r"; ([\d,]+) packets arrived": ("packets", in_digits),
}
"""A figure in a sentence about a run, its column in the results, and how it is written."""


@dataclass
class Section:
    """The outputs between two headings. `described` has texts about one run, each with the run's
    condition."""

    heading: str
    texts: list[str] = field(default_factory=list)
    figures: list[Mapping[str, Any]] = field(default_factory=list)
    tables: list[tuple[Sequence[str], Sequence[Sequence[str]]]] = field(default_factory=list)
    described: list[tuple[str, str]] = field(default_factory=list)

    @property
    def sentences(self) -> list[str]:
        return [one for text in self.texts for one in SENTENCE.split(text) if one.strip()]


@dataclass(frozen=True)
class Executed:
    """The sections of a notebook, and the results of its study by condition; `book` is the notebook
    with its outputs, and ends with what `shown_conditions.STUDIES` printed."""

    sections: Sequence[Section]
    results: Mapping[str, Mapping[str, Any]]
    book: nbformat.NotebookNode


def executed(notebook: NotebookFile, values: Mapping[str, Scalar]) -> Executed:
    """A notebook as `labs publish` executes it with these parameters."""
    book = open_notebook(notebook)
    for cell in book.cells:
        cell.source = cell.source.replace(ALL_KERNELS, ONE_KERNEL)
    with_study = any("study = " in cell.source for cell in book.cells)
    ends = (DUMP, STUDIES) if with_study else (STUDIES,)
    book.cells += map(nbformat.v4.new_code_cell, ends)
    book = execute(book, notebook.path, values, progress=False)
    rows = []
    if with_study:
        rows = json.loads(book.cells.pop(-2).outputs[0].text.removeprefix(RESULTS))
    sections = tuple(_sections(book.cells[:-1]))
    return Executed(sections, {row["condition"]: row for row in rows}, book)


def _sections(cells: Sequence[Any]) -> Iterator[Section]:
    section = Section("")
    for cell in cells:
        if cell.cell_type == "markdown" and cell.source.startswith("#"):
            yield section
            section = Section(cell.source.splitlines()[0])
        for output in cell.get("outputs", ()):
            _read(section, cell.source, output)
    yield section


def _read(section: Section, source: str, output: Any) -> None:
    data = output.get("data", {})
    if FIGURE in data:
        section.figures.append(data[FIGURE])
        table = data[FIGURE]["layout"].get("meta", {}).get("table")
        if table:
            section.tables.append((table["heads"], table["rows"]))
    elif "text/markdown" in data:
        text = data["text/markdown"]
        section.texts.append(text)
        one = re.search(r'\.describe\("([^"]+)"\)', source)
        lines = re.findall(r"^- \*\*(.+?)\*\*: (.*)", text, re.MULTILINE)
        section.described += [(one[1], text)] if one else lines
    elif "text/html" in data:
        rows = re.findall(r"(?s)<tr.*?</tr>", data["text/html"])
        cells = [[_text(one) for one in re.findall(r"(?s)<t[hd].*?</t[hd]>", row)] for row in rows]
        if cells:
            section.tables.append((cells[0], cells[1:]))
    elif output.output_type == "stream":
        section.texts.append(output.text)


def _text(html: str) -> str:
    return unescape(re.sub(r"<[^>]+>", "", html)).strip()


def comparisons(found: Executed) -> list[str]:
    """The comparisons of a run with a number of an article, outside the tables of verdicts."""
    said = []
    for section in found.sections:
        said += [one for one in section.sentences if ARTICLE.search(one) and re.search(r"\d", one)]
        for figure in section.figures:
            said += [
                trace["name"]
                for trace in figure["data"]
                if ARTICLE.search(str(trace.get("name"))) and _is_drawn(trace.get("y"))
            ]
        for heads, rows in section.tables:
            of_verdicts = {"verdict", "tolerance"} & {head.lower() for head in heads}
            columns = [place for place, head in enumerate(heads) if head.startswith("Article")]
            if not of_verdicts:
                said += [f"{row[at]} in a table" for row in rows for at in columns if row[at]]
    return said


def _is_drawn(values: Any) -> bool:
    return any(value is not None for value in (values or ()))


def wrong_figures(found: Executed) -> list[str]:
    """The figures and limits in sentences about a run that are not those of its results."""
    wrong = []
    for section in found.sections:
        for condition, text in section.described:
            for pattern, (column, written) in SAID.items():
                said = re.search(pattern, text)
                if said and said[1] != written(found.results[condition][column]):
                    wrong.append(f"{condition}: {said[0]}, {found.results[condition][column]}")
            bound = str(found.results[condition].get("bound"))
            limit = LIMIT.search(text)
            if limit and limit[1] not in (bound, BOUNDS.get(bound)):
                wrong.append(f"{condition}: {limit[0]}, {bound}")
    return wrong


def figures_read(found: Executed) -> int:
    """How many figures and limits `wrong_figures` compares."""
    described = [text for section in found.sections for _, text in section.described]
    return sum(bool(re.search(one, text)) for text in described for one in (*SAID, LIMIT.pattern))


def contradictions(found: Executed) -> list[str]:
    """The timelines that name one limit, while the sentence about the same run names another."""
    wrong = []
    for section in found.sections:
        said = dict(section.described)
        for figure in section.figures:
            layout = figure["layout"]
            drawn = {
                NAMED[next(name for name in NAMED if one["text"].startswith(name))]
                for one in layout.get("annotations", ())
                if BOLD.search(one["text"])
            }
            condition = CONDITION.search(str(layout.get("title")))
            if not drawn or condition is None:
                continue
            text = said[condition[1]]
            named = {*LIMIT.findall(text), *OTHER_LIMIT.findall(text)}
            if named != drawn:
                wrong.append(f"{condition[1]}: {drawn} drawn, {named or 'nothing'} said")
    return wrong
