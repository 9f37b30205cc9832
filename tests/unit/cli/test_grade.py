"""`labs grade`: what it prints, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labs.cli.__main__ import main
from tests.student_work import with_answers

REMOVED = ("moodle", "gradescope", "prairielearn", "due", "seeds", "secret")
ANSWERS = {"bdp_mib": "2.75", "limit": '"link"', "longest_rtt_ms": "24"}


def test_grade_prints_points_and_one_line_per_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with_answers("00-start-here", tmp_path, ANSWERS)
    assert main(["grade", str(tmp_path)]) == 0
    head, bdp, limit, longest = capsys.readouterr().out.splitlines()
    assert head.endswith("2 of 3 right")
    assert bdp.split()[0] == "wrong" and "right in MB" in bdp
    assert limit.split()[0] == longest.split()[0] == "right"


def test_grade_json_has_all_there_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with_answers("00-start-here", tmp_path, ANSWERS)
    assert main(["grade", "--json", str(tmp_path / "00-start-here.ipynb")]) == 0
    (sheet,) = json.loads(capsys.readouterr().out)
    assert (sheet["notebook"], sheet["points"], sheet["of"]) == ("00-start-here", 2, 3)
    assert [answer["answer"] for answer in sheet["answers"]] == [2.75, "link", 24.0]


def test_grade_of_a_class_grades_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with_answers("00-start-here", tmp_path / "alice", ANSWERS)
    (tmp_path / "bob.ipynb").write_text("{")
    assert main(["grade", str(tmp_path)]) == 2
    out = capsys.readouterr().out
    assert "2 of 3 right" in out
    assert sum("bob.ipynb: not graded." in line for line in out.splitlines()) == 1


def test_grade_into_a_table_prints_only_problems(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with_answers("00-start-here", tmp_path / "class" / "alice", ANSWERS)
    (tmp_path / "class" / "bob.ipynb").write_text("{")
    table = tmp_path / "grades.csv"
    assert main(["grade", str(tmp_path / "class"), "--csv", str(table)]) == 2
    problem, written = capsys.readouterr().out.splitlines()
    assert "bob.ipynb: not graded." in problem
    assert written == f"{table}: 2 students"


def test_grade_of_a_folder_without_notebooks_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["grade", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"labs: {tmp_path} has no notebooks. Name a folder with .ipynb files\n"
    )


@pytest.mark.parametrize(
    ("words", "phrase"),
    [
        (["--summary", "--json"], "standard output is named for two outputs"),
        (["--csv", "-", "--json"], "standard output is named for two outputs"),
        (["--csv", "new/a", "--page", "new/./a"], "new/a is named for two outputs"),
        *(([f"--{name}", "x"], f"--{name} is not a flag") for name in REMOVED),
    ],
)
def test_grade_refuses_flags_that_exclude_each_other(
    words: list[str],
    phrase: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with_answers("00-start-here", tmp_path, ANSWERS)
    assert main(["grade", str(tmp_path / "00-start-here.ipynb"), *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert phrase in line and not Path("new").exists()
