"""Notebooks as subjects: their cells are read, and nothing is executed."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

import labs
from labs.batches.plan_file import read_plan
from labs.batches.subject import notebook_subject
from labs.errors import BadInput, Damaged
from labs.publish.page_parameters import declared
from labs.read.notebook_file import read_notebook
from tests.plans import plan, refused_at, write_plan

NOTEBOOKS = Path(__file__).parents[3] / "notebooks"
CHECK = 'import labs\np = labs.check("buffers", globals())'
OURS = sorted(
    path
    for path in NOTEBOOKS.glob("*.ipynb")
    if path.stem[:2].isdigit() and "labs.check(" in path.read_text()
)


def write(
    folder: Path, parameters: str | None = "RATE_MBIT = 5", check: str | None = CHECK
) -> Path:
    cells = [
        new_code_cell(source, metadata={"tags": [tag]})
        for source, tag in ((parameters, "parameters"), (check, "check"))
        if source is not None
    ]
    path = folder / "book.ipynb"
    nbformat.write(new_notebook(cells=cells), path)
    return path


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.stem)
def test_notebook_subject_reads_every_notebook_of_the_project(path: Path) -> None:
    subject = notebook_subject(path)
    assert subject.defaults == declared(read_notebook(path)) and subject.computed == ()
    assert f'labs.check("{subject.lab.name}"' in path.read_text().replace("\\", "")


def test_notebook_subject_knows_grid_and_computed_defaults(tmp_path: Path) -> None:
    parameters = 'RATE_MBIT = [1, 2]\nDELAY_MS = 2 * 5\nKERNEL = "7.2"\nmy_colour = "red"'
    subject = notebook_subject(write(tmp_path, parameters, 'labs.grid("buffers", globals())'))
    assert (subject.lab.name, subject.computed) == ("buffers", ("RATE_MBIT", "DELAY_MS"))
    assert subject.defaults == {"KERNEL": "7.2"}


def test_notebook_subject_executes_nothing(tmp_path: Path) -> None:
    made = tmp_path / "made"
    notebook_subject(write(tmp_path, f"RATE_MBIT = 5\nx = open({str(made)!r}, 'w')"))
    assert not made.exists()


@pytest.mark.parametrize(
    ("parameters", "check"),
    [
        (None, CHECK),
        ("RATE_MBIT = 5", None),
        ("RATE_MBIT = 5", "import labs"),
        ("RATE_MBIT = 5", "labs.check("),
        ("RATE_MBIT = 5", 'labs.check("bufers", globals())'),
        ("RATE_MBIT = 5", 'labs.check("./gone.py", globals())'),
        ("RATE_MBIT = ", CHECK),
        ("RATE_MBITS = 5", CHECK),
        ("RATE_MBIT = -5", CHECK),
    ],
)
def test_notebook_subject_refuses_at_the_line_of_the_plan(
    tmp_path: Path, parameters: str | None, check: str | None
) -> None:
    write(tmp_path, parameters, check)
    assert refused_at(write_plan(tmp_path, "RATE_MBIT: 1\nnotebook: book.ipynb\n")) == 2


def test_notebook_subject_refuses_a_file_that_is_not_a_notebook(tmp_path: Path) -> None:
    assert refused_at(write_plan(tmp_path, "notebook: gone.ipynb\n")) == 1
    (tmp_path / "book.ipynb").write_text("{}")
    with pytest.raises(Damaged, match="line 1"):
        read_plan(write_plan(tmp_path, "notebook: book.ipynb\n"))
    with pytest.raises(BadInput):
        notebook_subject(tmp_path)


def test_plan_must_give_what_the_notebook_computes(tmp_path: Path) -> None:
    book = write(tmp_path, "RATE_MBIT = 2 * 5\nSEED = int(3)")
    assert refused_at(write_plan(tmp_path, "seeds: [1]\nnotebook: book.ipynb\n")) == 2
    plan_file = plan(tmp_path, "RATE_MBIT: 3\nseeds: [1, 2]", subject=str(book))
    assert [point.values for point in plan_file.points] == [
        {"RATE_MBIT": 3, "SEED": 1},
        {"RATE_MBIT": 3, "SEED": 2},
    ]


def test_parameters_are_those_that_the_check_of_the_notebook_returns(tmp_path: Path) -> None:
    path = NOTEBOOKS / "01-buffers-and-bdp.ipynb"
    plan_file = plan(tmp_path, 'DELAY_MS: [20, 30]\nKERNEL: "7.2"', subject=str(path))
    defaults = declared(read_notebook(path))
    for point in plan_file.points:
        wanted = labs.check("buffers", {**defaults, **point.values})
        assert plan_file.parameters_of(point) == wanted
