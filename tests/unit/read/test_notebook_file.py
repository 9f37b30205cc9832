"""Notebooks from anybody: read, or refused in one line."""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from pathlib import Path
from typing import Any

import pytest

from labs.errors import BadInput, Damaged
from labs.read.notebook_file import parameters, read_notebook
from tests.student_work import NOTEBOOKS

CELL: dict[str, Any] = {"cell_type": "code", "source": "a = 1", "metadata": {"tags": ["answer"]}}
BOOK: dict[str, Any] = {"cells": [CELL], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}


def write(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content) if not isinstance(content, str) else content, "utf-8")
    return path


def test_read_notebook_has_cells_tags_and_the_stem() -> None:
    found = read_notebook(NOTEBOOKS / "00-start-here.ipynb")
    assert found.stem == "00-start-here"
    assert len(found.tagged("answer")) == 1
    assert parameters(found)["DELAY_MS"] == 200


def test_read_notebook_that_an_editor_on_windows_saved(tmp_path: Path) -> None:
    path = tmp_path / "00-start-here.ipynb"
    path.write_bytes(BOM_UTF8 + (NOTEBOOKS / path.name).read_bytes())
    assert read_notebook(path).cells == read_notebook(NOTEBOOKS / path.name).cells


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "{}",
        {**BOOK, "cells": {}},
        {**BOOK, "nbformat": 3},
        {**BOOK, "nbformat": 4.0},
        {**BOOK, "nbformat_minor": True},
        {**BOOK, "metadata": None},
        {name: value for name, value in BOOK.items() if name != "metadata"},
        {**BOOK, "cells": [1]},
        {**BOOK, "cells": [{**CELL, "source": 5}]},
        {**BOOK, "cells": [{**CELL, "source": ["a", 5]}]},
        {**BOOK, "cells": [{**CELL, "source": "\ud800"}]},
        {**BOOK, "cells": [{"cell_type": "code", "metadata": {}}]},
        {**BOOK, "cells": [{"cell_type": "code", "source": ""}]},
        {**BOOK, "cells": [{**CELL, "metadata": "x"}]},
        {**BOOK, "cells": [{**CELL, "metadata": {"tags": "answer"}}]},
        {**BOOK, "cells": [{**CELL, "metadata": {"tags": [1]}}]},
        {**BOOK, "cells": [{**CELL, "cell_type": "cell"}]},
        {**BOOK, "cells": [{**CELL, "cell_type": []}]},
        {**BOOK, "cells": [{**CELL, "outputs": "x"}]},
        {**BOOK, "cells": [{**CELL, "outputs": None}]},
        {**BOOK, "cells": [{**CELL, "outputs": ["x"]}]},
        {**BOOK, "cells": [{**CELL, "outputs": [{"data": ["x"]}]}]},
        "[" * 100_000,
    ],
)
def test_read_notebook_refuses_what_is_not_one(tmp_path: Path, content: object) -> None:
    with pytest.raises(Damaged) as caught:
        read_notebook(write(tmp_path / "a.ipynb", content))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"labs": 5},
        {"labs": {"notebook": ["x"]}},
        {"labs": {"notebook": "x\nalice.ipynb: 3 of 3 right"}},
        {"labs": {"notebook": "x" * 1000}},
        {"labs": {}},
    ],
)
def test_read_notebook_with_odd_metadata_is_named_by_its_file(
    tmp_path: Path, metadata: object
) -> None:
    content = {**BOOK, "metadata": metadata}
    assert read_notebook(write(tmp_path / "alice.ipynb", content)).stem == "alice"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("notes.txt", "is not a notebook"),
        ("missing.ipynb", "does not exist"),
        ("folder.ipynb", "is a folder"),
    ],
)
def test_read_notebook_refuses_other_files(tmp_path: Path, name: str, why: str) -> None:
    write(tmp_path / "notes.txt", "")
    (tmp_path / "folder.ipynb").mkdir()
    with pytest.raises(BadInput, match=f"{name} {why}. Name an"):
        read_notebook(tmp_path / name)


def test_parameters_refuses_code(tmp_path: Path) -> None:
    cell = {**CELL, "source": "RATE_MBIT = print(1)", "metadata": {"tags": ["parameters"]}}
    found = read_notebook(write(tmp_path / "a.ipynb", {**BOOK, "cells": [cell]}))
    with pytest.raises(BadInput, match="RATE_MBIT is not a literal"):
        parameters(found)
