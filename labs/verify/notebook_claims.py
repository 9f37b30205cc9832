"""What an executed notebook of a bundle shows, compared with its runs without executing it: its
parameters, the figures in tables of results, and the verdicts in tables of claims.

A table of results has the column `condition`, and columns with the names of results, which readers
see as tooltips. A figure must equal that of a run of its condition in the bundle or, because a
table may show a median, lie between the smallest and the largest of them. A table of claims has the
columns `claim` and `verdict`. Other outputs are compared only if the notebook is executed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from itertools import islice
from typing import Any

from labs.catalog import LABS, find
from labs.drive.parameters.declare import check, declared
from labs.errors import BadInput, LabError
from labs.guest.condition import seed_of
from labs.publish.output_html import plain_text
from labs.publish.page_parameters import CHECK, checked_lab
from labs.read.display.format import few, notebook_cell
from labs.read.lab import Lab
from labs.read.notebook_file import (
    INJECTED,
    NOT_PYTHON,
    NotebookFile,
    assignments,
    code_cells,
    given_parameters,
    joined,
    parameters,
    statements,
)
from labs.read.runs.recorded import differences, unequal
from labs.read.runs.run import Run

SHOWN, MOST = 4, 20
ROUNDING = 0.0006
"""A cell shows four digits, so it differs from its figure by less than this share of the figure."""
HTML = "text/html"


@dataclass(frozen=True)
class Objection:
    """A part of a bundle that differs from what its runs or this package give, or that was not
    compared, and why."""

    part: str
    why: str
    differs: bool = False

    def as_json(self) -> dict[str, str]:
        return {"part": self.part, "why": self.why}


def of_parameters(notebook: NotebookFile, runs: Sequence[Run]) -> Iterator[Objection]:
    """The parameters in the cells of a notebook, compared with its metadata and with the runs."""
    part = f"parameters of {notebook.path.name}"
    if (why := _in_injected(notebook)) is not None:
        yield Objection(part, why, differs=True)
    given = given_parameters(notebook.content)
    try:
        injected, values = parameters(notebook, (INJECTED,)), parameters(notebook)
    except BadInput as error:
        yield Objection(part, str(error))
        return
    for name in {**given, **injected}:
        if given.get(name) != injected.get(name):
            why = (
                f"{name} = {injected.get(name)!r} in its cell, {given.get(name)!r} in its metadata"
            )
            yield Objection(part, why[:200], differs=True)
    checked = checked_lab(notebook)
    if checked not in LABS:
        yield Objection(part, "no cell checks them with a lab of this package")
        return
    lab = find(str(checked))
    fields = declared(lab.Parameters)
    of_lab = {name.lower(): value for name, value in values.items() if name.lower() in fields}
    if set(map(str.lower, _changed_by_code(notebook))) & fields.keys():
        yield Objection(part, "their check or a later cell changes them")
        return
    try:
        yield from _of_conditions(part, lab, of_lab, [run for run in runs if run.lab == lab.name])
    except (LabError, TypeError) as error:
        yield Objection(part, str(error)[:200])


def _in_injected(notebook: NotebookFile) -> str | None:
    """What a cell tagged as papermill's has that papermill does not write, or None. Such a cell is
    replaced when the notebook is executed, so its outputs are compared with nothing."""
    cells = notebook.tagged(INJECTED)
    if len(cells) > 1:
        return f"{len(cells)} cells are tagged {INJECTED}; papermill writes one"
    if any(INJECTED in _tags(cell) and cell.get("outputs") for cell in notebook.content["cells"]):
        return f"the cell tagged {INJECTED} has an output; that of papermill has none"
    try:
        if any(len(statements(cell.source)) > len([*assignments(cell)]) for cell in cells):
            return f"the cell tagged {INJECTED} does more than assign values"
    except (*NOT_PYTHON, BadInput):
        return f"the cell tagged {INJECTED} cannot be read"
    return None


def _tags(cell: Mapping[str, Any]) -> Sequence[str]:
    tags: Sequence[str] = cell["metadata"].get("tags", ())
    return tags


def _changed_by_code(notebook: NotebookFile) -> Iterator[str]:
    """The names in capitals that cells other than those of parameters assign, and the keywords of
    the check, which replace values."""
    for cell in notebook.cells:
        if cell.is_code and cell not in notebook.tagged("parameters", INJECTED):
            try:
                nodes = list(ast.walk(ast.parse(cell.source)))
            except NOT_PYTHON:
                continue
            names = (node for node in nodes if isinstance(node, ast.Name))
            yield from (
                name.id for name in names if name.id.isupper() and isinstance(name.ctx, ast.Store)
            )
            if CHECK in cell.tags:
                yield from (str(node.arg) for node in nodes if isinstance(node, ast.keyword))


def _of_conditions(
    part: str, lab: Lab, values: Mapping[str, Any], runs: Sequence[Run]
) -> Iterator[Objection]:
    """The conditions that the parameters select, compared with the runs of the same names."""
    p = check(lab.Parameters, values)
    asked: dict[str, Any] = {"memory_mib": p.memory_mib}
    without: list[str] = []
    for condition in lab.conditions(p):
        wanted = condition.as_json()
        named = [
            run
            for run in runs
            if run.condition == condition.name and run.is_virtual == p.where.any_kernel
        ]
        if p.where.any_kernel:
            asked |= {"condition": wanted, "seed": seed_of(condition.settings, p.seed)}
            differing = [
                differences({**asked, "kernel": kernel}, run)
                for run in named
                for kernel in p.kernels
            ]
        else:
            differing = [unequal(wanted, run.condition_asked.as_json()) for run in named]
        if not named:
            without.append(condition.name)
        elif all(differing):
            nearest = few(min(differing, key=len), SHOWN)
            yield Objection(part, f"no run of {condition.name} has {nearest}", differs=True)
    if without:
        yield Objection(part, f"the bundle has no run of {few(without, SHOWN)}")


def of_tables(
    notebook: NotebookFile, runs: Sequence[Run], verdicts: Mapping[str, Sequence[str]]
) -> Iterator[Objection]:
    """The figures and verdicts in the tables of a notebook that differ from those of the runs and
    from the `verdicts` on each claim; no more than MOST."""
    return islice(_in_tables(notebook, runs, verdicts), MOST)


def _in_tables(
    notebook: NotebookFile, runs: Sequence[Run], verdicts: Mapping[str, Sequence[str]]
) -> Iterator[Objection]:
    named: dict[str, list[Run]] = {}
    for run in runs:
        if run.lab in LABS:
            named.setdefault(run.condition, []).append(run)
    for number, cell in enumerate(code_cells(notebook.content["cells"]), start=1):
        part = f"code cell {number} of {notebook.path.name}"
        for row in _rows(cell):
            for name, expected in _expected(row, named, verdicts):
                if not _fits(row[name], expected):
                    shown = few(list(dict.fromkeys(map(notebook_cell, expected))), SHOWN)
                    subject = row.get("condition", row.get("claim"))
                    why = f"{name} of {subject} is {row[name]}, but {shown} in the runs"
                    yield Objection(part, why[:200], differs=True)


def _expected(
    row: Mapping[str, str],
    named: Mapping[str, Sequence[Run]],
    verdicts: Mapping[str, Sequence[str]],
) -> Iterator[tuple[str, list[Any]]]:
    """The columns of a row that can be checked, with the values of its runs or verdicts."""
    for name in row:
        values = [
            find(run.lab).results(run).values.get(name)
            for run in named.get(row.get("condition", ""), ())
            if name in find(run.lab).columns
        ]
        if values:
            yield name, values
    if "verdict" in row and (words := verdicts.get(row.get("claim", ""))):
        yield "verdict", list(words)


def _fits(cell: str, expected: Sequence[Any]) -> bool:
    """Whether a cell shows one of these values, or a number between them. Words in place of a
    number, such as "below 1", are not compared."""
    if cell in (" ".join(notebook_cell(value).split()) for value in expected):
        return True
    numbers = [float(value) for value in expected if type(value) in (int, float) and value == value]
    try:
        shown = float(cell.replace(",", ""))
    except ValueError:
        return bool(numbers) or any(cell.startswith(f"{value} ") for value in expected)
    about = ROUNDING * abs(shown)
    return bool(numbers) and min(numbers) - about <= shown <= max(numbers) + about


def _rows(cell: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """The rows of the tables in the outputs of a cell, by the names of their columns, as
    `rich_output.Table` writes them; nothing of tables in another form."""
    for output in cell.get("outputs", ()):
        html = joined(output.get("data", {}).get(HTML, ""))
        for table in html.split("<table>")[1:]:
            head, _, body = table.partition("</table>")[0].partition("</thead>")
            names = [unescape(part.partition('"')[0]) for part in head.split(' title="')[1:]]
            for row in body.split("<tr>")[1:]:
                texts = [part.partition(">")[2] for part in row.split("<td")[1:]]
                if len(texts) == len(names):
                    shown = (plain_text(text.partition("</td>")[0]) for text in texts)
                    yield dict(zip(names, shown, strict=True))
