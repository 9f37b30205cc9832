"""What a class guessed and measured, and the pages that show it."""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path

import pytest

from labs.catalog import LABS, find
from labs.cli.__main__ import main
from labs.drive.record.seal import key
from labs.grading import class_results
from labs.grading.answers import GUESS
from labs.grading.class_results import KERNEL, class_runs
from labs.grading.run_evidence import recorded_runs
from labs.read.display.provenance import asked, asked_of
from labs.read.exercises.exercise import Guess, of_lab
from labs.read.notebook_file import assignments, parameters, read_notebook
from labs.read.runs import recorded
from labs.read.runs.archive import run_folders, runs_folder
from labs.read.runs.run import open_run
from tests.run_folders import reseal
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
    by_name = {guess.name: class_results._known(lab, guess) for lab, guess in GUESSES if guess.unit}
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


def test_class_shows_guesses_beside_prediction_and_measurement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The measurement is that of notebook 00, which fills a link of 1000 Mbit/s: 114 MiB/s."""
    guessing(tmp_path / "class", [50.0, 100.0, 120.0])
    page = tmp_path / "class.html"
    assert main(["class", str(tmp_path / "class"), "--json", "--page", str(page)]) == 0
    (guess,) = json.loads(capsys.readouterr().out)["guesses"]
    assert (guess["guesses"], guess["middle"], guess["unit"]) == ([50, 100, 120], 100, "MiB/s")
    line = 1e9 / 8 * 1448 / 1514 / 2**20
    assert guess["predicted"] == pytest.approx(line, rel=0.02)
    assert guess["measured"] == pytest.approx(line, rel=0.02)
    assert (
        "both_mib_s" in page.read_text() and "http" not in page.read_text().split("<script", 1)[0]
    )
    assert main(["class", str(tmp_path / "class"), "--page", str(page)]) == 2


def test_class_runs_have_one_content_in_virtual_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that two students handed in, and a damaged one."""
    runs = runs_folder(recorded.places("nagle")[0])
    folder = next(path for path in run_folders(runs) if open_run(path).condition == "on")
    for student in ("ada", "bob"):
        shutil.copytree(folder, tmp_path / student / "runs" / folder.name)
    damaged = tmp_path / "eve" / "runs" / folder.name
    damaged.mkdir(parents=True)
    (damaged / "run.json").write_text("{")
    (on,), problems = class_runs(tmp_path)
    assert (on.lab, on.condition, on.testbed) == ("nagle", "on", "virtual")
    assert (on.students, on.runs, on.digests) == (2, 2, 1)
    assert on.low == on.middle == on.high
    assert len(problems) == 1 and str(damaged) in problems[0]
    assert main(["class", str(tmp_path)]) == 2
    assert "nagle on" in capsys.readouterr().out
    alone = tmp_path / "ada" / "runs" / folder.name
    assert main(["class", str(alone)]) == 0
    assert "nagle on" in capsys.readouterr().out


def test_class_runs_with_other_buffers_are_rows_of_their_own(tmp_path: Path) -> None:
    """`both` with 41, 45.6 and 50 MiB, which notebook 01 asks for: one link, three results."""
    runs = [
        run
        for run in recorded_runs("buffers")
        if run.condition == "both" and asked_of(run) == "1000 Mbit/s, 200 ms"
        if run.kernel.release.startswith("6.1.")
        if run.condition_asked.settings["client"] == "discard"
    ]
    for run in runs:
        shutil.copytree(run.path, tmp_path / "ada" / run.path.name)
    rows, problems = class_runs(tmp_path)
    assert (len(rows), problems) == (len(runs), []) and len(runs) >= 3
    assert {(row.runs, row.digests, row.unit) for row in rows} == {(1, 1, "MiB/s")}
    for size_mib in (41, 45.6, 50):
        size = round(size_mib * 2**20)
        (row,) = [
            row_of_size
            for row_of_size in rows
            if f"tcp_rmem {size} {size} {size}" in row_of_size.link
        ]
        assert row.link.startswith("1000 Mbit/s, 200 ms, ")


@pytest.mark.parametrize("changed", [{"flows": 5}, {"path": "down"}])
def test_a_run_without_results_is_told_beside_the_others(
    changed: dict[str, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Eve's has a plan that is no traffic, and a new seal."""
    runs = runs_folder(recorded.places("sharing")[0])
    folder = next(path for path in run_folders(runs) if open_run(path).condition == "incast-fifo")
    for student in ("ada", "eve"):
        shutil.copytree(folder, tmp_path / student / folder.name)
    eve = tmp_path / "eve" / folder.name
    record = json.loads((eve / "run.json").read_text())
    record["inputs"]["condition"]["plan"] |= changed
    record["key"] = key(record["inputs"])
    (eve / "run.json").write_text(json.dumps(record))
    reseal(eve)
    rows, (problem,) = class_runs(tmp_path)
    assert sorted((row.runs, row.middle is None) for row in rows) == [(1, False), (1, True)]
    assert str(eve) in problem and "a plan that is no traffic" in problem
    assert main(["class", str(tmp_path)]) == 2
    assert problem in capsys.readouterr().out
    assert asked_of(open_run(eve)) == (
        asked(open_run(eve).link.asked) if "path" in changed else asked_of(open_run(folder))
    )


def test_the_page_of_a_class_names_reasons_and_problems(tmp_path: Path) -> None:
    class_of(80, tmp_path / "class", seed=5)
    page = tmp_path / "grades.html"
    assert main(["grade", str(tmp_path / "class"), "--page", str(page)]) == 2
    text = page.read_text()
    for phrase in ("Points per student", "This is right in Mbit", "which is not opened", "Remarks"):
        assert phrase in text
    assert main(["grade", str(tmp_path / "class"), "--page", str(page), "--force"]) == 2


def test_the_page_of_two_students_has_the_median_between_them(tmp_path: Path) -> None:
    for student, answers in (("ada", RIGHT), ("bob", {})):
        with_answers("00-start-here", tmp_path / "class" / student, answers)
    page = tmp_path / "grades.html"
    assert main(["grade", str(tmp_path / "class"), "--page", str(page)]) == 0
    assert "The median is 1.5 of 3 points." in page.read_text()


def test_a_page_escapes_names(tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)>"
    with_answers("00-start-here", tmp_path / "class" / name, {}).rename(
        tmp_path / "class" / name / "<b>.ipynb"
    )
    page = tmp_path / "grades.html"
    main(["grade", str(tmp_path / "class"), "--page", str(page)])
    assert "<img src=x" not in page.read_text() and "<b>" not in page.read_text()
    assert "&lt;img src=x" in page.read_text()
