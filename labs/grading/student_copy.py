"""The student's copy of a notebook: without solutions and outputs; edited copies are kept."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labs.drive.record.disk import write_whole
from labs.drive.record.seal import key
from labs.errors import BadInput, LabError
from labs.read.notebook_file import read_notebook

SOLUTION = "solution"
TESTBED = re.compile(r'^(TESTBED *= *)"[a-z]+"', re.MULTILINE)
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
    notebook: Path, into: Path, *, recorded: bool = False, dry_run: bool = False
) -> Copied:
    """Write the student's copy of a notebook into a folder, unless an edited one exists. With
    `recorded` its testbed is "recorded": it needs no kernel."""
    source = read_notebook(notebook).content
    target = into / notebook.name
    if target.resolve() == notebook.resolve():
        raise BadInput(f"{into} is the folder of {notebook.name}. Name another folder with --into")
    new = student_version(source, notebook.stem)
    if recorded:
        _use_recorded_runs(new)
    outcome = _outcome(target, new)
    if outcome in (WRITTEN, UPDATED) and not dry_run:
        into.mkdir(parents=True, exist_ok=True)
        write_whole(target, _as_text(new).encode())
    return Copied(target, outcome)


def student_version(notebook: Mapping[str, Any], stem: str) -> dict[str, Any]:
    """The notebook without solutions, outputs and counts; its metadata name the original, and the
    digest of its sources, by which edits are found."""
    found = copy.deepcopy(dict(notebook))
    found["cells"] = [
        cell for cell in found["cells"] if SOLUTION not in cell["metadata"].get("tags", [])
    ]
    for cell in found["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    found["metadata"]["labs"] = {"notebook": stem, "sources": _sources(found)}
    return found


def _use_recorded_runs(notebook: Mapping[str, Any]) -> None:
    """Set the testbed in the parameters cell."""
    for cell in notebook["cells"]:
        if "parameters" in cell["metadata"].get("tags", []):
            text = TESTBED.sub(r'\1"recorded"', "".join(cell["source"]), count=1)
            cell["source"] = text.splitlines(keepends=True)
    notebook["metadata"]["labs"]["sources"] = _sources(notebook)


def _sources(notebook: Mapping[str, Any]) -> str:
    """The digest of the sources of all cells."""
    return key({"cells": [[it["cell_type"], "".join(it["source"])] for it in notebook["cells"]]})


def _outcome(target: Path, new: Mapping[str, Any]) -> str:
    """What to do about a copy: one that was not edited is replaced, any other is kept."""
    if not target.exists() and not target.is_symlink():
        return WRITTEN
    try:
        found = read_notebook(target, follow=False).content
        sources = _sources(found)
        if found["metadata"]["labs"]["sources"] != sources:
            return KEPT
    except (LabError, LookupError, TypeError):
        return KEPT  # not a copy of ours, or damaged: it may be work
    return UNCHANGED if _sources(new) == sources else UPDATED


def _as_text(notebook: Mapping[str, Any]) -> str:
    """The notebook as Jupyter writes it."""
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
