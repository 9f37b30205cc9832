"""The grades of a class, from notebooks as students hand them in."""

from __future__ import annotations

import codecs
import csv
import json
import time
from pathlib import Path

import pytest

from labs.cli.__main__ import main
from labs.errors import BadInput, Missing
from labs.grading.class_report import Guesses, guesses_of
from labs.grading.grade_sheet import grade_submission
from labs.grading.gradebook import Gradebook, as_csv, gradebook
from labs.grading.student_copy import copy_for_students
from labs.grading.submissions import submissions
from tests.student_work import class_of

NOTEBOOKS = Path(__file__).parents[3] / "notebooks"
START = "00-start-here"


def handed_in(folder: Path, answers: dict[str, str], name: str = START) -> Path:
    """A student's copy of notebook 00 with these answers and guesses."""
    folder.mkdir(parents=True)
    copy_for_students(NOTEBOOKS / f"{START}.ipynb", folder, {"TESTBED": "recorded"})
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


def graded(root: Path) -> Gradebook:
    return gradebook([(file, grade_submission(file)) for file in submissions(root)])


def test_gradebook_has_one_row_per_student_with_the_best_sheet(course: Path) -> None:
    students = graded(course).students
    assert [student.name for student in students] == ["=eve", "Ada Lovelace (123)", "bob"]
    assert [student.points for student in students] == [0, 1, 0]
    assert [list(student.sheets) for student in students] == [[], [START], [START]]
    assert ["is not JSON" in "".join(student.problems) for student in students] == [
        True,
        False,
        False,
    ]


def test_gradebook_tells_what_is_double_renamed_or_empty(course: Path) -> None:
    _, ada, bob = graded(course).students
    assert [remark.partition(": ")[2][:14] for remark in ada.remarks] == [
        "empty, without",
        "handed in more",
    ]
    assert "assignsubmission_file/00-start-here.ipynb counts" in ada.remarks[1]
    assert bob.remarks == ["homework.ipynb: renamed from 00-start-here.ipynb."]


def test_gradebook_escapes_the_names_of_files(course: Path) -> None:
    for folder in ("\x1b[2J", "again"):
        handed_in(course / "dan" / folder, {})
        (course / "dan" / folder / "\x1b]0;x.ipynb").write_text("x")
    (dan,) = [student for student in graded(course).students if student.name == "dan"]
    assert len(dan.problems) == 2 and any("more than once" in remark for remark in dan.remarks)
    assert all(text.isprintable() for text in (*dan.problems, *dan.remarks, *dan.files))


def test_totals_count_answers_and_hints(course: Path) -> None:
    first = graded(course).totals[0]
    assert (first.exercise.name, first.right, first.answered, first.handed_in) == (
        "bdp_mib",
        1,
        2,
        2,
    )
    assert "decimal point" in next(iter(first.wrong))


def test_guesses_of_the_class_have_quartiles(course: Path) -> None:
    (guess,) = guesses_of(graded(course))
    assert (guess.name, guess.numbers) == ("guess_both_mib_s", [100.0, 114.0])
    assert guess.quartiles == (103.5, 107.0, 110.5)
    assert Guesses(START, "alone", (7.0,)).quartiles == (7.0, 7.0, 7.0)


def test_300_submissions_have_the_points_that_the_maker_knows(tmp_path: Path) -> None:
    """At most 20 s of CPU time, whatever is among them; nothing is executed or unpacked."""
    points = class_of(300, tmp_path / "class", seed=31)
    before = sorted(tmp_path.rglob("*"))
    started_s = time.process_time()
    table = tmp_path / "grades.csv"
    assert main(["grade", str(tmp_path / "class"), "--csv", str(table)]) == 2
    assert time.process_time() - started_s <= 20
    assert sorted(tmp_path.rglob("*")) == sorted([*before, table])
    rows = {
        row["student"].rpartition("(")[2].rstrip(")"): row
        for row in csv.DictReader(table.open(newline="", encoding="utf-8-sig"))
    }
    assert {
        number: int(row["total"]) if row["total"] else None for number, row in rows.items()
    } == (points)
    assert all(bool(row["problems"]) == (points[number] is None) for number, row in rows.items())
    assert not [row for row in rows.values() if row["student"].startswith(("=", "+", "@", "-"))]


def test_main_writes_tables_that_others_read(course: Path, tmp_path: Path) -> None:
    wanted = {name: tmp_path / f"{name}.csv" for name in ("csv", "nbgrader")}
    words = [word for name, path in wanted.items() for word in (f"--{name}", str(path))]
    assert main(["grade", str(course), *words]) == 2  # Eve's cannot be read
    rows = {
        name: list(csv.DictReader(path.open(encoding="utf-8-sig"))) for name, path in wanted.items()
    }
    assert {path.read_bytes()[:3] for path in wanted.values()} == {codecs.BOM_UTF8}
    assert [row["student"] for row in rows["csv"]] == ["'=eve", "Ada Lovelace (123)", "bob"]
    assert [row[f"{START} points"] for row in rows["csv"]] == ["", "1", "0"]
    assert [row[f"{START} guess_both_mib_s"] for row in rows["csv"]] == ["", "100.0", "114.0"]
    assert [(row["student_id"], row["score"], row["max_score"]) for row in rows["nbgrader"]] == [
        ("Ada Lovelace (123)", "1", "3"),
        ("bob", "0", "3"),
    ]


def test_main_writes_the_outputs_that_can_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file is where a folder should be."""
    handed_in(tmp_path / "class" / "李小龍", {})
    table, page, no_folder = (tmp_path / name for name in ("grades.csv", "grades.html", "none"))
    no_folder.touch()
    words = ["grade", str(tmp_path / "class"), "--csv", str(table), "--page", str(page)]
    assert main([*words, "--nbgrader", str(no_folder / "x.csv")]) == Missing.exit_code
    printed = capsys.readouterr()
    assert f"Written: {table}, {page}" in printed.err and printed.err.count("\n") == 1
    assert printed.out.split("\n")[:-1] == [f"{path}: 1 students" for path in (table, page)]
    assert "李小龍" in table.read_text("utf-8-sig")
    assert page.read_text().startswith("<!")


def test_main_keeps_existing_files(
    course: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "grades.csv"
    table.write_text("mine")
    assert main(["grade", str(course), "--csv", str(table)]) == BadInput.exit_code
    assert table.read_text() == "mine"
    assert "--force" in capsys.readouterr().err
    main(["grade", str(course), "--csv", str(table), "--force"])
    assert table.read_text("utf-8-sig").startswith("student,")


def test_main_prints_the_summary(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grade", str(course), "--summary"]) == 2
    text = capsys.readouterr().out
    assert "3 students, 2 notebooks" in text
    assert f"{START} bdp_mib: 1 of 2 right, 0 without an answer" in text
    assert "2 guesses, median 107, half of them from 103.5 to 110.5" in text


def test_as_csv_quotes_what_a_spreadsheet_would_compute(tmp_path: Path) -> None:
    handed_in(tmp_path / "class" / '=HYPERLINK("a, b")', {"bdp_mib": "2.62"})
    _, row = csv.reader(as_csv(graded(tmp_path / "class")).splitlines())
    assert row[0] == '\'=HYPERLINK("a, b")'


def test_copies_with_recorded_runs_need_no_kernel(tmp_path: Path) -> None:
    copy_for_students(NOTEBOOKS / f"{START}.ipynb", tmp_path, {"TESTBED": "recorded"})
    text = (tmp_path / f"{START}.ipynb").read_text()
    assert 'TESTBED = \\"recorded\\"  ' in text.replace("             #", "  #")
    again = copy_for_students(NOTEBOOKS / f"{START}.ipynb", tmp_path, {"TESTBED": "recorded"})
    assert again.outcome == "unchanged"
    assert copy_for_students(NOTEBOOKS / f"{START}.ipynb", tmp_path).outcome == "updated"
