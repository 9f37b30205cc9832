"""The guesses of a class, and the page that shows them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from labs.catalog import LABS, find
from labs.cli.__main__ import main
from labs.grading.answers import GUESS
from labs.grading.class_report import KERNEL, _about, guesses_of
from labs.grading.grade_sheet import grade_submission
from labs.grading.gradebook import gradebook
from labs.grading.submissions import submissions
from labs.read.exercises.exercise import Guess, of_lab
from labs.read.notebook_file import assignments, parameters, read_notebook
from tests.student_work import NOTEBOOKS, RIGHT, class_of, with_answers

GUESSES = [(lab, guess) for lab in map(find, LABS) for guess in of_lab(lab)[1]]


OF_COLUMNS = [(lab, guess) for lab, guess in GUESSES if not guess.unit]


def test_every_guess_of_a_notebook_is_declared_once() -> None:
    asked = [
        (path.stem, name)
        for path in NOTEBOOKS.glob("*.ipynb")
        for cell in read_notebook(path).tagged(GUESS)
        for name, _ in assignments(cell)
    ]
    assert sorted(asked) == sorted((guess.notebook, guess.name) for _, guess in GUESSES)


def test_guesses_of_sizes_have_the_figures_of_the_notebook() -> None:
    """1000 Mbit/s for 200 ms are 23.8 MiB; the run's own link differs by its framing."""
    by_name = {guess.name: _about(lab, guess) for lab, guess in GUESSES if guess.unit}
    unit, predicted, measured = by_name["guess_bdp_mib"]
    assert unit == "MiB" and predicted == pytest.approx(1e9 / 8 * 0.2 / 2**20)
    assert measured == pytest.approx(predicted, rel=0.01)
    unit, predicted, measured = by_name["guess_buffer_mib"]
    assert unit == "MiB" and predicted is not None and predicted > 1e9 / 8 * 0.2 / 2**20
    assert measured is None  # no single run shows it
    assert by_name["guess_default_ratio"] == ("ratio", 1.0, None)


@pytest.mark.parametrize(
    ("lab", "guess"), OF_COLUMNS, ids=lambda guess_or_lab: getattr(guess_or_lab, "name", "")
)
def test_guesses_are_those_that_the_notebook_compares(lab: object, guess: Guess) -> None:
    """The notebook asks for the name, and compares it with the same condition and column."""
    notebook = read_notebook(NOTEBOOKS / f"{guess.notebook}.ipynb")
    asked = [name for cell in notebook.tagged(GUESS) for name, _ in assignments(cell)]
    assert guess.name in asked
    condition, _, column = guess.column.rpartition(".")
    cells = [cell.source for cell in notebook.cells if cell.is_code and ".guesses(" in cell.source]
    (cell,) = [cell for cell in cells if guess.name in cell and f'"{column}"' in cell]
    pairs = {
        key.value: value.id
        for node in ast.walk(ast.parse(cell))
        if isinstance(node, ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(value, ast.Name)
    }
    assert pairs[guess.kernel or condition] == guess.name
    assert str(parameters(notebook)["KERNEL"]).split(",")[0] == KERNEL


def guessing(root: Path, guesses: list[float]) -> None:
    for number, guess in enumerate(guesses):
        path = with_answers("00-start-here", root / f"student {number}", RIGHT)
        text = path.read_text().replace("guess_both_mib_s = None", f"guess_both_mib_s = {guess}")
        path.write_text(text)


def test_report_shows_guesses_beside_prediction_and_measurement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The measurement is that of notebook 00, which fills a link of 1000 Mbit/s: 114 MiB/s."""
    guessing(tmp_path / "class", [50.0, 100.0, 120.0])
    (row,) = guesses_of(
        gradebook([(file, grade_submission(file)) for file in submissions(tmp_path / "class")])
    )
    line = 1e9 / 8 * 1448 / 1514 / 2**20
    assert (row.numbers, row.unit) == ([50, 100, 120], "MiB/s")
    assert row.predicted == pytest.approx(line, rel=0.02)
    assert row.measured == pytest.approx(line, rel=0.02)
    page = tmp_path / "class.html"
    assert main(["grade", str(tmp_path / "class"), "--summary", "--page", str(page)]) == 0
    assert f"predicted {row.predicted:.4g}, measured {row.measured:.4g}" in capsys.readouterr().out
    text = page.read_text()
    assert "both_mib_s" in text and "http" not in text.split("<script", 1)[0]


def test_the_page_of_a_class_names_reasons(tmp_path: Path) -> None:
    class_of(80, tmp_path / "class", seed=5)
    page = tmp_path / "grades.html"
    assert main(["grade", str(tmp_path / "class"), "--page", str(page)]) == 2
    text = page.read_text()
    for phrase in ("This is right in Mbit", "Questions, hardest first", "bdp_mib"):
        assert phrase in text
    assert main(["grade", str(tmp_path / "class"), "--page", str(page), "--force"]) == 2


def test_the_page_names_no_student(tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)>"
    with_answers("00-start-here", tmp_path / "class" / name, {}).rename(
        tmp_path / "class" / name / "<b>.ipynb"
    )
    page = tmp_path / "grades.html"
    assert main(["grade", str(tmp_path / "class"), "--page", str(page)]) == 0
    assert "<img src=x" not in page.read_text() and "<b>" not in page.read_text()
