"""Every notebook has the same skeleton: parameters, check, short cells, nothing left of a run."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from labs.batches.report import ReportParameters
from labs.catalog import find
from labs.drive.parameters.declare import declared
from labs.drive.parameters.notebook_cell import from_literals
from labs.read.exercises.exercise import of_lab
from labs.read.lab import Lab
from labs.studies.capture_account import CaptureParameters
from tests.question_order import ANSWERS

NOTEBOOKS = sorted((Path(__file__).parents[3] / "notebooks").glob("*.ipynb"))
TAGS = {"parameters", "check", "predict", "guess", "exercise", "answer", "solution"}
HIDDEN = {"source_hidden": True, "outputs_hidden": True}
"""How JupyterLab is told to fold a cell."""
SECTIONS = ("**Goals.**", "**Prerequisites.**", "**Time.**")
OWN: dict[str, tuple[str, type[Any]]] = {
    "09-explain-your-own": ("labs.check_capture(globals())", CaptureParameters),
    "10-batch-report": ("labs.check_report(globals())", ReportParameters),
}
"""They read a file, of whatever origin, and have no parameters of a lab: how they check theirs."""
REPORTS = [path for path in NOTEBOOKS if path.stem in OWN]
GRADED = [path for path in NOTEBOOKS if '"answer"' in path.read_text("utf-8")]
LONGEST_CELL = 10
# Assignments that `papermill --help-notebook` reads: NAME = literal  # what it is
PARAMETER = re.compile(r"([A-Z][A-Z0-9_]*) = (.+?)  # \S.+")


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request: pytest.FixtureRequest) -> Any:
    book = nbformat.read(request.param, as_version=4)
    nbformat.validate(book)
    return book


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def tagged(notebook: Any, tag: str) -> list[Any]:
    return [cell for cell in notebook.cells if tag in cell.metadata.get("tags", [])]


def test_notebooks_exist() -> None:
    assert NOTEBOOKS


def lab_of(notebook: Any) -> Lab:
    """The lab that the cell tagged check names."""
    (check,) = tagged(notebook, "check")
    (name,) = re.findall(r'labs\.check\("(\w+)"', check.source)
    return find(name)


RUNS_IN_TEACHING = re.findall(
    r"^\| \[([\w-]+)\]\(.*\| (\d+)(?:,| per kernel)[^|]*\|$",
    (NOTEBOOKS[0].parents[1] / "docs" / "teaching.md").read_text("utf-8"),
    re.MULTILINE,
)


@pytest.mark.parametrize(("stem", "runs"), RUNS_IN_TEACHING)
def test_teaching_tells_the_runs_of_a_notebook(stem: str, runs: str) -> None:
    """A first Run All performs one run per condition; of several kernels, on each."""
    book = nbformat.read(NOTEBOOKS[0].with_stem(stem), as_version=4)
    lab = lab_of(book)
    (cell,) = tagged(book, "parameters")
    given = {name: ast.literal_eval(value) for name, value in names_of([cell]).items()}
    assert len(lab.conditions(from_literals(lab.Parameters, given))) == int(runs)


def test_teaching_tells_the_runs_of_most_notebooks() -> None:
    assert len(RUNS_IN_TEACHING) >= 8


def names_of(cells: list[Any]) -> dict[str, ast.expr]:
    """The names that cells assign at top level, with the values."""
    return {
        target.id: line.value
        for cell in cells
        for line in ast.parse(cell.source).body
        if isinstance(line, ast.Assign)
        for target in line.targets
        if isinstance(target, ast.Name)
    }


@pytest.fixture(params=GRADED, ids=lambda path: path.stem)
def graded(request: pytest.FixtureRequest) -> Any:
    """A notebook with graded exercises; its stem is in its metadata, as in students' copies."""
    book = nbformat.read(request.param, as_version=4)
    book.metadata["stem"] = request.param.stem
    return book


def test_graded_notebook_has_goals_summary_and_reading(graded: Any) -> None:
    first, last = graded.cells[0].source, graded.cells[-1].source
    assert all(section in first for section in SECTIONS)
    assert last.startswith("## Summary") and "## Further reading" in last
    assert "RFC " in last and "Linux: " in last and "[1] *" in last


def solutions_of(notebook: Any) -> list[Any]:
    return [cell for cell in tagged(notebook, "solution") if cell.cell_type == "code"]


def test_solutions_are_hidden_in_jupyterlab(graded: Any) -> None:
    """Below a collapsed heading: JupyterLab shows hidden output again when a cell runs."""
    solutions, hidden = solutions_of(graded), False
    assert solutions
    for cell in graded.cells:
        if cell.cell_type == "markdown" and cell.source.startswith("#"):
            hidden = cell.metadata.get("jp-MarkdownHeadingCollapsed", False)
            assert hidden == ("solution" in cell.metadata.get("tags", []))
        assert hidden == ("solution" in cell.metadata.get("tags", [])), cell.id
    for cell in solutions:
        assert cell.metadata.get("jupyter") == HIDDEN


def test_answer_cells_have_exactly_the_exercises_of_the_notebook(graded: Any) -> None:
    answers = names_of(tagged(graded, "answer"))
    declared = [
        one.name for one in of_lab(lab_of(graded))[0] if one.notebook == graded.metadata["stem"]
    ]
    assert list(answers) == declared
    assert f'labs.grade("{graded.metadata["stem"]}", globals())' in [
        cell.source for cell in graded.cells
    ]


def test_guesses_and_answers_start_empty_and_are_used(graded: Any) -> None:
    cells = [*tagged(graded, "guess"), *tagged(graded, "answer")]
    for value in names_of(cells).values():
        assert isinstance(value, ast.Constant) and value.value is None
    later = "\n".join(
        cell.source for cell in code_cells(graded) if "guess" not in cell.metadata.get("tags", [])
    )
    guesses = names_of(tagged(graded, "guess"))
    assert guesses
    assert [name for name in guesses if not re.search(rf"\b{name}\b", later)] == []


def test_no_other_cell_needs_a_solution(graded: Any) -> None:
    """A student's copy has no solutions, and Run All still works."""
    solutions = solutions_of(graded)
    others = [cell for cell in code_cells(graded) if cell not in solutions]
    only_there = set(names_of(solutions)) - set(names_of(others))
    used = {
        node.id
        for cell in others
        for node in ast.walk(ast.parse(cell.source))
        if isinstance(node, ast.Name)
    }
    assert used & only_there == set()


def test_notebook_begins_with_title_parameters_and_check(notebook: Any) -> None:
    assert notebook.cells[0].cell_type == "markdown"
    assert notebook.cells[0].source.startswith("# ")
    first, second = code_cells(notebook)[:2]
    assert tagged(notebook, "parameters") == [first]
    assert tagged(notebook, "check") == [second]
    tags = {tag for cell in notebook.cells for tag in cell.metadata.get("tags", [])}
    assert {tag for tag in tags if not tag.startswith(ANSWERS)} <= TAGS


def test_parameters_cell_has_literals_with_a_comment_each(notebook: Any) -> None:
    (cell,) = tagged(notebook, "parameters")
    for line in cell.source.splitlines():
        read = PARAMETER.fullmatch(line)
        assert read is not None, line
        ast.literal_eval(read[2])


def test_parameters_cell_of_a_report_has_all_its_parameters() -> None:
    assert [path.stem for path in REPORTS] == list(OWN)
    for path in REPORTS:
        check, parameters = OWN[path.stem]
        notebook = nbformat.read(path, as_version=4)
        given: dict[str, Any] = {}
        exec(tagged(notebook, "parameters")[0].source, given)
        from_literals(parameters, given)
        assert {name.lower() for name in given if name.isupper()} == declared(parameters).keys()
        assert check in tagged(notebook, "check")[0].source


@pytest.mark.parametrize(
    "path", [path for path in NOTEBOOKS if path not in REPORTS], ids=lambda path: path.stem
)
def test_parameters_cell_has_the_names_of_its_lab(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    (cell,) = tagged(notebook, "parameters")
    (check,) = tagged(notebook, "check")
    calls = [
        node
        for node in ast.walk(ast.parse(check.source))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "labs.check"
    ]
    (call,) = calls
    assert ast.unparse(call.args[1]) == "globals()"
    given: dict[str, Any] = {}
    exec(cell.source, given)
    from_literals(find(ast.literal_eval(call.args[0])).Parameters, given)


def test_code_cells_import_labs_alone(notebook: Any) -> None:
    """Everything of this package is reached through `labs`: no import of a deep module."""
    for cell in code_cells(notebook):
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.Import):
                assert {one.name for one in node.names} <= {"labs", "pandas"}, cell.source
            if isinstance(node, ast.ImportFrom):
                assert node.module == "pathlib", cell.source


def test_code_cells_are_short_and_define_nothing(notebook: Any) -> None:
    for cell in code_cells(notebook):
        assert len(cell.source.splitlines()) <= LONGEST_CELL, cell.source
        for node in ast.walk(ast.parse(cell.source)):
            assert not isinstance(
                node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda
            ), cell.source


def test_notebook_holds_nothing_of_a_run(notebook: Any) -> None:
    for cell in code_cells(notebook):
        assert cell.outputs == []
        assert cell.execution_count is None
    for place in (notebook, *notebook.cells):
        assert "papermill" not in place.metadata


def test_notebook_names_the_generic_python_kernel(notebook: Any) -> None:
    assert notebook.metadata.kernelspec == {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    }


def test_markdown_cells_need_no_formula_renderer(notebook: Any) -> None:
    """A page that works offline carries no MathJax; formulas are written in plain characters."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            assert re.search(r"\$[^$\n]+\$", re.sub(r"`[^`]*`", "", cell.source)) is None


TRUE_ANYWHERE = {
    ("02-iperf-buffer-sweeps", "8 ms"): "262.5 Mbit/s",
    ("04-receive-window", "1,024 bytes"): "1,984",
    ("11-queues-and-latency", "40 ms"): "CoDel's target",
}
"""Facts that contain an initial value and do not depend on it, by words of their paragraph."""


def test_notebook_tells_an_initial_value_as_such(notebook: Any, request: Any) -> None:
    """A text that names the initial value of a parameter says that it is the initial one, or the
    article's: with another value the page would be wrong. Exercises name their own values."""
    stem = Path(request.node.callspec.params["notebook"]).stem
    told = {
        f"{value} {unit}": re.compile(rf"\b(?:{value}|{int(value):,})\s{re.escape(unit)}(?!\w)")
        for cell in tagged(notebook, "parameters")
        for value, unit in re.findall(r"= (\d+) +# .*\(.* (\S+)\)$", cell.source, re.MULTILINE)
    }
    wrong = [
        paragraph
        for cell in notebook.cells
        if cell.cell_type == "markdown" and "exercise" not in cell.metadata.get("tags", [])
        for paragraph in re.split(r"\n\n|\n(?=[-|#])", cell.source)
        for found in (one.search(paragraph) for one in told.values())
        if found and not re.search("initial|article", paragraph)
        if TRUE_ANYWHERE.get((stem, found[0]), paragraph + ".") not in paragraph
    ]
    assert wrong == []
