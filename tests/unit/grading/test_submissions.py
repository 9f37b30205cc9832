"""What a class handed in, found in a folder: whose it is, and what is not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from labs.errors import BadInput
from labs.grading.submissions import MOST_BYTES, submissions, whose


@pytest.mark.parametrize(
    ("inside", "student"),
    [
        ("alice/00-start-here.ipynb", "alice"),
        ("alice.ipynb", "alice"),
        ("Ada Lovelace_123_assignsubmission_file/x.ipynb", "Ada Lovelace (123)"),
        ("Ada Lovelace_123_assignsubmission_file_/x.ipynb", "Ada Lovelace (123)"),
        ("Ada Lovelace_123_assignsubmission_file_x.ipynb", "Ada Lovelace (123)"),
        ("van_der Waals_7_assignsubmission_file_/a/b.ipynb", "van_der Waals (7)"),
        ("Bob, Jr._8_assignsubmission_onlinetext_/x.ipynb", "Bob, Jr. (8)"),
        ("two\nlines/x.ipynb", "two\\nlines"),
        ("submitted/hacker/ps1/problem1.ipynb", "hacker"),
        ("submitted", "submitted"),
        ("hacker+ps1+2026-11-25 22:00:00.123456 UTC+b64_x=/p.ipynb", "hacker"),
    ],
)
def test_whose_reads_the_names_of_moodle_and_nbgrader(inside: str, student: str) -> None:
    assert whose(Path(inside)) == student


def test_submissions_are_told_apart_and_nothing_is_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.ipynb").write_text("{}")
    root = tmp_path / "class"
    for name in ("b.ipynb", "a/c.ipynb", "a/.ipynb_checkpoints/c-checkpoint.ipynb", "a/notes.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    (root / "a" / "work.zip").write_bytes(b"PK")
    (root / "a" / "file.ipynb").symlink_to(outside / "x.ipynb")
    (root / "a" / "folder").symlink_to(outside)
    with (root / "a" / "large.ipynb").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    problems = {
        str(submission.path.relative_to(root)): submission.problem
        for submission in submissions(root)
    }
    assert {name: " ".join(problem.split()[2:5]) for name, problem in problems.items()} == {
        "b.ipynb": "",
        "a/c.ipynb": "",
        "a/work.zip": "an archive, which",
        "a/file.ipynb": "a symbolic link,",
        "a/folder": "a symbolic link,",
        "a/large.ipynb": "too large: 32",
    }


def test_submissions_of_a_folder_without_notebooks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="has no notebooks"):
        submissions(tmp_path)
