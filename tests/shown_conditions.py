"""The conditions that an executed notebook shows, next to those that its text and its code name."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from labs.catalog import find
from labs.read.notebook_file import FIGURE

STUDIES = """\
import json
from labs.studies.study import Study
every = {}
for name, value in list(globals().items()):
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, Study) and one.runs and not name.startswith("_"):
            client = getattr(one.parameters, "client", "")
            where = f"{one.runs[0].testbed}, {one.runs[0].kernel.release} {client}"
            every.setdefault(id(one), [name, one.lab.name, where, sorted(one.conditions)])
print(json.dumps(list(every.values())))"""
"""A last cell that prints the studies of a notebook: name, lab, testbed, kernel and client,
conditions."""
HEADING = re.compile(r"^#{1,3} (.+)", re.MULTILINE)
ROW = re.compile(r"^\| (`.+?) \|", re.MULTILINE)
SUBSET = 'SIZE = "small"'
"""A section that says so has a table of more conditions than the notebook runs."""
SHORTENED = re.compile(r"and \d+ more ·")


def not_shown(book: Any) -> list[tuple[str, str]]:
    """The conditions in the tables of a section's text that none of the section's figures, tables
    and summaries has, with the section's heading."""
    found = []
    for heading, cells in _sections(book):
        text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
        shown = "\n".join(_shown(cells))
        if shown and SUBSET not in text and not SHORTENED.search(shown):
            names = [name for row in ROW.findall(text) for name in re.findall(r"`([\w.-]+)`", row)]
            found += [
                (heading, name)
                for name in names
                if "..." not in name
                and not re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", shown)
            ]
    return found


def studies(book: Any) -> list[list[Any]]:
    """What STUDIES has printed."""
    found: list[list[Any]] = json.loads(book.cells[-1].outputs[0].text)
    return found


def repeated(book: Any) -> list[str]:
    """The labs of which several studies have the same conditions on the same testbed and kernel,
    with the same client."""
    counted = Counter((lab, where, *names) for _, lab, where, names in studies(book))
    return [key[0] for key, count in counted.items() if count > 1]


def not_as_named(book: Any) -> list[tuple[str, str]]:
    """Studies without a condition that the cell which makes them names, or with one that it does
    not name."""
    found = []
    for cell in (one for one in book.cells[:-1] if one.cell_type == "code"):
        tree = ast.parse(cell.source)
        made = {target.id for one in tree.body if isinstance(one, ast.Assign)
                for target in one.targets if isinstance(target, ast.Name)}  # fmt: skip
        words = [one.value for one in ast.walk(tree) if isinstance(one, ast.Constant)]
        listed = [part for one in words if isinstance(one, str) for part in one.split(",")]
        for name, lab, _, conditions in studies(book):
            every = [one.name for one in find(lab).conditions(find(lab).Parameters(size="full"))]
            named = [one for one in listed if any(fnmatchcase(each, one) for each in every)]
            if name in made and named:
                found += [
                    (name, one)
                    for one in named
                    if not any(fnmatchcase(each, one) for each in conditions)
                ]
                found += [
                    (name, one)
                    for one in conditions
                    if not any(fnmatchcase(one, pattern) for pattern in named)
                ]
    return found


def _sections(book: Any) -> Iterator[tuple[str, list[Any]]]:
    heading = ""
    cells: list[Any] = []
    for cell in book.cells:
        begins = HEADING.search(cell.source) if cell.cell_type == "markdown" else None
        if begins:
            yield heading, cells
            heading, cells = begins[1], []
        cells.append(cell)
    yield heading, cells


def _shown(cells: list[Any]) -> Iterator[str]:
    for output in (one for cell in cells for one in cell.get("outputs", ())):
        data = output.get("data", {})
        if FIGURE in data:
            yield json.dumps(data[FIGURE]["data"])
        elif "text/html" in data or "text/plain" in data:
            yield data.get("text/html", data.get("text/plain"))
