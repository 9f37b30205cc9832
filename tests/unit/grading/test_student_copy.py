"""Students' copies: no solutions, no outputs, and no edit is ever lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from labs.errors import BadInput
from labs.grading.student_copy import KEPT, UNCHANGED, UPDATED, WRITTEN, copy_for_students
from tests.student_work import NOTEBOOKS

EVERY = sorted(NOTEBOOKS.glob("*.ipynb"))


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


@pytest.fixture
def original(tmp_path: Path) -> Path:
    """A copy of a notebook of the project, in a folder of its own."""
    path = tmp_path / "notebooks" / "00-start-here.ipynb"
    path.parent.mkdir()
    path.write_bytes((NOTEBOOKS / path.name).read_bytes())
    return path


@pytest.fixture
def into(tmp_path: Path) -> Path:
    return tmp_path / "student"


def changed(path: Path, cell_id: str, **values: Any) -> None:
    """Change a cell of a notebook, as Jupyter would."""
    notebook = read(path)
    (cell,) = [cell for cell in notebook["cells"] if cell["id"] == cell_id]
    cell.update(values)
    path.write_text(json.dumps(notebook), "utf-8")


@pytest.mark.parametrize("notebook", EVERY, ids=lambda path: path.stem)
def test_copy_has_no_solutions_and_is_valid(notebook: Path, into: Path) -> None:
    copied = copy_for_students(notebook, into)
    assert copied.outcome == WRITTEN
    book = nbformat.read(copied.path, as_version=4)
    nbformat.validate(book)
    tags = [tag for cell in book.cells for tag in cell.metadata.get("tags", [])]
    assert "solution" not in tags
    assert [cell.id for cell in book.cells] == [
        cell["id"]
        for cell in read(notebook)["cells"]
        if "solution" not in cell["metadata"].get("tags", [])
    ]
    assert book.metadata["labs"]["notebook"] == notebook.stem


def test_copy_is_stripped_of_outputs(original: Path, into: Path) -> None:
    output = {"output_type": "stream", "name": "stdout", "text": "the solution"}
    changed(original, "study", outputs=[output], execution_count=7)
    copied = copy_for_students(original, into).path
    assert "the solution" not in copied.read_text("utf-8")
    assert all(
        cell["outputs"] == [] and cell["execution_count"] is None
        for cell in read(copied)["cells"]
        if cell["cell_type"] == "code"
    )


def test_copy_of_an_unedited_copy_is_unchanged_then_updated(original: Path, into: Path) -> None:
    first = copy_for_students(original, into)
    content = first.path.read_bytes()
    assert copy_for_students(original, into).outcome == UNCHANGED
    assert first.path.read_bytes() == content
    changed(original, "title", source="# A new title")
    assert copy_for_students(original, into).outcome == UPDATED
    assert "# A new title" in first.path.read_text("utf-8")


def test_copy_that_was_only_run_is_not_work(original: Path, into: Path) -> None:
    path = copy_for_students(original, into).path
    changed(path, "study", outputs=[], execution_count=3)
    assert copy_for_students(original, into).outcome == UNCHANGED


@pytest.mark.parametrize("cell", ["answers", "guess", "parameters", "title"])
def test_copy_with_edits_is_never_overwritten(original: Path, into: Path, cell: str) -> None:
    path = copy_for_students(original, into).path
    changed(path, cell, source="bdp_mib = 23.8")
    content = path.read_bytes()
    changed(original, "title", source="# A new title")
    copied = copy_for_students(original, into)
    assert copied.outcome == KEPT
    assert "rename it" in copied.words and "\n" not in copied.words
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"{}",
        b'{"cells": [], "metadata": {}}',
        b'{"cells": [1], "metadata": {"labs": {"sources": ""}}}',
        b"\xff",
    ],
)
def test_copy_never_overwrites_another_file(original: Path, into: Path, content: bytes) -> None:
    into.mkdir()
    (into / original.name).write_bytes(content)
    assert copy_for_students(original, into).outcome == KEPT
    assert (into / original.name).read_bytes() == content


def test_copy_does_not_follow_a_link(original: Path, into: Path, tmp_path: Path) -> None:
    into.mkdir()
    (into / original.name).symlink_to(tmp_path / "elsewhere.ipynb")
    assert copy_for_students(original, into).outcome == KEPT
    assert not (tmp_path / "elsewhere.ipynb").exists()


def test_copy_into_the_folder_of_the_original_is_refused(original: Path) -> None:
    with pytest.raises(BadInput, match="Name another folder"):
        copy_for_students(original, original.parent)


def test_copy_with_dry_run_writes_nothing(original: Path, into: Path) -> None:
    assert copy_for_students(original, into, dry_run=True).outcome == WRITTEN
    assert not into.exists()
