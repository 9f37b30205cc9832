"""The student's copy of a notebook: without solutions and outputs; edited copies are kept."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labs.catalog import find
from labs.drive.parameters.declare import describe_value, unknown
from labs.drive.parameters.notebook_cell import from_literals
from labs.drive.record.disk import write_whole
from labs.drive.record.seal import key
from labs.errors import BadInput, LabError
from labs.grading.nbgrader import as_source
from labs.read.notebook_file import PARAMETERS, notebook_file, parameters, read_notebook

SOLUTION = "solution"
LAB = re.compile(r'labs\.(?:check|grid)\("(\w+)"')
LINE = re.compile(r"^([A-Z][A-Z0-9_]*)( *= *)([^#\n]*?)( *)(#.*)?$", re.MULTILINE)
LINK = re.compile(r"(\d+(?:\.\d+)?)x(\d+(?:\.\d+)?)")
LITERAL = re.compile(r"-?\d[\d_]*(?:\.\d+)?(?:e-?\d+)?|True|False")
LINK_PRESET = "LINK"
OF_LINK = ("RATE_MBIT", "DELAY_MS")
WRITTEN, UPDATED, UNCHANGED, KEPT = "written", "updated", "unchanged", "kept"


@dataclass(frozen=True)
class Copied:
    """What happened to one copy: `outcome` is one of WRITTEN, UPDATED, UNCHANGED, KEPT."""

    path: Path
    outcome: str

    @property
    def words(self) -> str:
        if self.outcome == KEPT:
            return (
                f"{self.path}: kept, because it has been edited. For a new copy, rename it and "
                "repeat the command"
            )
        return f"{self.path}: {self.outcome}"


def copy_for_students(
    notebook: Path,
    into: Path,
    presets: Mapping[str, str] | None = None,
    *,
    nbgrader: bool = False,
    dry_run: bool = False,
) -> Copied:
    """Write the student's copy of a notebook into a folder, unless an edited one exists. `presets`
    are values of parameters; those that the notebook does not have are omitted. With `nbgrader` it
    is a source notebook of nbgrader."""
    target = into / notebook.name
    if target.resolve() == notebook.resolve():
        raise BadInput(f"{into} is the folder of {notebook.name}. Name another folder with --into")
    new = student_version(read_notebook(notebook).content)
    if presets:
        preset(new, notebook, presets)
    if nbgrader:
        as_source(new, notebook.stem)
    sources = _sources(new)
    new["metadata"]["labs"] = {"notebook": notebook.stem, "sources": sources}
    outcome = _outcome(target, sources)
    if outcome in (WRITTEN, UPDATED) and not dry_run:
        into.mkdir(parents=True, exist_ok=True)
        text = json.dumps(new, indent=1, ensure_ascii=False, sort_keys=True)  # as Jupyter does
        write_whole(target, f"{text}\n".encode())
    return Copied(target, outcome)


def read_presets(
    given: Sequence[str], link: str | None, notebooks: Sequence[Path]
) -> dict[str, str]:
    """NAME=VALUE as values by name, and of a link RATExDELAY its two. BadInput for a name that no
    notebook has."""
    allowed = {name for path in notebooks for name in parameters(read_notebook(path))}
    presets: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise BadInput(f"{text} is not a preset. Write NAME=VALUE, for example KERNEL=6.1")
        if name not in allowed:
            raise BadInput(unknown(name, sorted(allowed)))
        presets[name] = value
    if link is not None:
        numbers = LINK.fullmatch(link)
        if numbers is None:
            raise BadInput(
                f"{link} is not a link. Write rate (Mbit/s) x delay (ms), for example 100x40"
            )
        presets[LINK_PRESET] = link
    return presets


def preset(notebook: Mapping[str, Any], path: Path, presets: Mapping[str, str]) -> None:
    """Set parameters in the parameters cell. BadInput for a value that the lab does not allow."""
    cells = [cell for cell in notebook["cells"] if PARAMETERS & {*cell["metadata"].get("tags", [])}]
    names = {match[1] for cell in cells for match in LINE.finditer("".join(cell["source"]))}
    values = {name: value for name, value in presets.items() if name != LINK_PRESET}
    if LINK_PRESET in presets and names.issuperset(OF_LINK):
        values = dict(zip(OF_LINK, presets[LINK_PRESET].split("x"), strict=True)) | values

    def replaced(line: re.Match[str]) -> str:
        name, equals, old, space, comment = line.groups("")
        if name not in values or "," in old:  # several kernels are what a notebook compares
            return line[0]
        new = json.dumps(values[name]) if old.startswith('"') else _literal(name, values[name])
        width = len(old) + len(space)
        return f"{name}{equals}{new.ljust(width) if comment else new}{comment}"

    for cell in cells:
        text = LINE.sub(replaced, "".join(cell["source"]))
        cell["source"] = text.splitlines(keepends=True)
    check = LAB.search("".join("".join(cell["source"]) for cell in notebook["cells"]))
    if check is not None:
        from_literals(find(check[1]).Parameters, parameters(notebook_file(notebook, path)))


def student_version(notebook: Mapping[str, Any]) -> dict[str, Any]:
    """The notebook without solutions, outputs and counts."""
    version = copy.deepcopy(dict(notebook))
    version["cells"] = [
        cell for cell in version["cells"] if SOLUTION not in cell["metadata"].get("tags", [])
    ]
    for cell in version["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    return version


def _literal(name: str, value: str) -> str:
    """A value that is code in a cell: nothing but a number or a switch."""
    if not LITERAL.fullmatch(value):
        raise BadInput(
            f"{describe_value(name, value)} is not a value. Allowed: a number, True or False"
        )
    return value


def _sources(notebook: Mapping[str, Any]) -> str:
    """The digest of the sources of all cells, by which edits are found."""
    return key({"cells": [[it["cell_type"], "".join(it["source"])] for it in notebook["cells"]]})


def _outcome(target: Path, new: str) -> str:
    """What to do about a copy, for new sources: one that was not edited is replaced, any other is
    kept."""
    if not target.exists() and not target.is_symlink():
        return WRITTEN
    try:
        existing = read_notebook(target, follow=False).content
        sources = _sources(existing)
        if existing["metadata"]["labs"]["sources"] != sources:
            return KEPT
    except (LabError, LookupError, TypeError):
        return KEPT  # not a copy of ours, or damaged: it may be work
    return UNCHANGED if new == sources else UPDATED
