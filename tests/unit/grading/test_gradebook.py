"""The grades of a class, from notebooks as students hand them in."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from labs.cli.__main__ import main
from labs.errors import BadInput
from labs.grading import gradebook
from labs.grading.grade_sheet import Sheet, grade_file
from labs.grading.gradebook import Submission, as_csv, best, guesses, student_of, totals
from labs.grading.student_copy import copy_for_students

NOTEBOOKS = Path(__file__).parents[3] / "notebooks"
START = "00-start-here"


def handed_in(folder: Path, answers: dict[str, str], name: str = START) -> Path:
    """A student's copy of notebook 00 with these answers and guesses."""
    folder.mkdir(parents=True)
    copy_for_students(NOTEBOOKS / f"{START}.ipynb", folder, recorded=True)
    path = (folder / f"{START}.ipynb").rename(folder / f"{name}.ipynb")
    content = json.loads(path.read_text())
    for cell in content["cells"]:
        for variable, value in answers.items():
            cell["source"] = [
                f"{variable} = {value}\n" if line.startswith(f"{variable} ") else line
                for line in cell["source"]
            ]
    path.write_text(json.dumps(content))
    return path


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """Ada hands in twice, Bob under another name and with mistakes, Eve what is no notebook."""
    root = tmp_path / "submissions"
    ada = root / "Ada Lovelace_123_assignsubmission_file"
    handed_in(ada, {"bdp_mib": "2.62", "limit": '"the send buffer"', "guess_both_mib_s": "100"})
    handed_in(ada / "late", {"bdp_mib": "None"})
    handed_in(root / "bob", {"bdp_mib": "2,62", "guess_both_mib_s": "114"}, "homework")
    (root / "=eve").mkdir()
    (root / "=eve" / f"{START}.ipynb").write_text("x")
    return root


def graded(root: Path) -> dict[tuple[str, str], Sheet]:
    return best(
        Submission(student_of(path, root), grade_file(path)) for path in root.rglob("*.ipynb")
    )


def test_best_has_one_sheet_per_student_and_notebook(course: Path) -> None:
    found = graded(course)
    assert list(found) == [("Ada Lovelace (123)", START), ("bob", START)]
    assert [sheet.points for sheet in found.values()] == [1, 0]


def test_totals_count_answers_and_hints(course: Path) -> None:
    first = totals(graded(course))[0]
    assert (first.question, first.right, first.answered, first.handed_in) == ("bdp_mib", 1, 2, 2)
    assert "decimal point" in next(iter(first.wrong))


def test_guesses_of_the_class_have_quartiles(course: Path) -> None:
    (found,) = guesses(graded(course))
    assert (found.name, found.numbers) == ("guess_both_mib_s", (100.0, 114.0))
    assert found.quartiles == (103.5, 107.0, 110.5)
    assert gradebook.Guesses(START, "one", (7.0,)).quartiles == (7.0, 7.0, 7.0)


def test_main_writes_tables_that_others_read(course: Path, tmp_path: Path) -> None:
    wanted = {name: tmp_path / f"{name}.csv" for name in ("csv", "moodle", "nbgrader")}
    words = [word for name, path in wanted.items() for word in (f"--{name}", str(path))]
    assert main(["grade", str(course), *words]) == 2  # Eve's cannot be read
    rows = {name: list(csv.DictReader(path.open())) for name, path in wanted.items()}
    assert [row["student"] for row in rows["csv"]] == ["Ada Lovelace (123)", "bob"]
    assert [row[f"{START} points"] for row in rows["csv"]] == ["1", "0"]
    assert [row[f"{START} guess_both_mib_s"] for row in rows["csv"]] == ["100.0", "114.0"]
    # mod/assign/feedback/offline/importgradeslib.php: without these columns nothing is imported.
    assert rows["moodle"] == [
        {"Identifier": "Participant 123", "Grade": "1", "Last modified (grade)": "-"}
    ]
    assert [(row["student_id"], row["score"], row["max_score"]) for row in rows["nbgrader"]] == [
        ("Ada Lovelace (123)", "1", "3"),
        ("bob", "0", "3"),
    ]


def test_main_keeps_existing_files(
    course: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "grades.csv"
    table.write_text("mine")
    assert main(["grade", str(course), "--csv", str(table)]) == BadInput.exit_code
    assert table.read_text() == "mine"
    assert "--force" in capsys.readouterr().err
    main(["grade", str(course), "--csv", str(table), "--force"])
    assert table.read_text().startswith("student,")


def test_main_prints_the_summary(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grade", str(course), "--summary"]) == 2
    said = capsys.readouterr().out
    assert "2 students, 2 notebooks" in said
    assert f"{START} bdp_mib: 1 of 2 right, 0 without an answer" in said
    assert "2 guesses, median 107, half of them from 103.5 to 110.5" in said


def test_as_csv_quotes_what_a_spreadsheet_would_compute(tmp_path: Path) -> None:
    path = handed_in(tmp_path / "=HYPERLINK(1)", {"bdp_mib": "2.62"})
    text = as_csv(best([Submission("=HYPERLINK(1)", grade_file(path))]))
    assert "\n'=HYPERLINK(1)," in text.replace("\r", "")


def test_as_moodle_needs_the_folders_that_it_named(tmp_path: Path) -> None:
    path = handed_in(tmp_path / "bob", {})
    with pytest.raises(BadInput, match="assignsubmission_file"):
        gradebook.as_moodle(best([Submission("bob", grade_file(path))]))


def test_copies_with_recorded_runs_need_no_kernel(tmp_path: Path) -> None:
    copy_for_students(NOTEBOOKS / f"{START}.ipynb", tmp_path, recorded=True)
    text = (tmp_path / f"{START}.ipynb").read_text()
    assert 'TESTBED = \\"recorded\\"  ' in text.replace("             #", "  #")
    again = copy_for_students(NOTEBOOKS / f"{START}.ipynb", tmp_path, recorded=True)
    assert again.outcome == "unchanged"
    assert copy_for_students(NOTEBOOKS / f"{START}.ipynb", tmp_path).outcome == "updated"


def test_lecturers_notebook_under_another_name_is_known_by_its_questions(tmp_path: Path) -> None:
    path = tmp_path / "mine.ipynb"
    path.write_text((NOTEBOOKS / f"{START}.ipynb").read_text())
    found = grade_file(path)
    assert (found.notebook, len(found.grades), found.problem) == (START, 3, "")
