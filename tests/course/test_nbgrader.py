"""nbgrader itself: an assignment made from a notebook of the lab, submissions of four students, and
the points that it gives, beside those of `labs grade`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from labs.grading.grade_sheet import grade_file
from labs.grading.nbgrader import SCHEMA_VERSION
from labs.grading.student_copy import copy_for_students
from tests.student_work import NOTEBOOKS, RIGHT

STEM, ASSIGNMENT = "00-start-here", "start"
GIVEN: Mapping[str, Mapping[str, str]] = {
    "right": RIGHT,
    "part": {**RIGHT, "longest_rtt_ms": "200"},
    "wrong": {"bdp_mib": "5.245", "limit": '"send buffer"', "longest_rtt_ms": "35"},
    "empty": {},
}
POINTS = {"right": 3, "part": 2, "wrong": 0, "empty": 0}
LONGEST_CELL_S = 1800


def nbgrader(course: Path, *words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", *words, f"--course-dir={course}"],
        cwd=course,
        capture_output=True,
        text=True,
        timeout=3600,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course in which all has been handed in and graded."""
    folder = tmp_path_factory.mktemp("course")
    source = folder / "source" / ASSIGNMENT
    presets = {"TESTBED": "recorded"}
    copy_for_students(NOTEBOOKS / f"{STEM}.ipynb", source, presets, nbgrader=True)
    nbgrader(folder, "generate_assignment", ASSIGNMENT)
    released = read(folder / "release" / ASSIGNMENT / f"{STEM}.ipynb")
    for student, answers in GIVEN.items():
        handed_in = json.loads(json.dumps(released))
        for cell in handed_in["cells"]:
            if "answer" in cell["metadata"].get("tags", []):
                cell["source"] += [f"\n{name} = {value}" for name, value in answers.items()]
        path = folder / "submitted" / student / ASSIGNMENT / f"{STEM}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(handed_in), "utf-8")
    nbgrader(folder, "autograde", ASSIGNMENT, f"--ExecutePreprocessor.timeout={LONGEST_CELL_S}")
    return folder


def test_source_notebook_has_the_schema_that_nbgrader_has() -> None:
    from nbgrader.nbgraderformat import MetadataValidator

    assert MetadataValidator.schema_version == SCHEMA_VERSION


@pytest.mark.timeout(7200)
def test_autograde_gives_full_part_and_no_points(course: Path) -> None:
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as book:
        points = {
            submission.student.id: (submission.score, submission.max_score)
            for submission in book.assignment_submissions(ASSIGNMENT)
        }
        grades = {
            submission.student.id: {
                grade.name: grade.score for it in submission.notebooks for grade in it.grades
            }
            for submission in book.assignment_submissions(ASSIGNMENT)
        }
    assert points == {student: (points, 3) for student, points in POINTS.items()}
    assert grades["part"] == {"points-bdp_mib": 1, "points-limit": 1, "points-longest_rtt_ms": 0}


@pytest.mark.parametrize("student", GIVEN)
def test_points_equal_those_of_labs_grade(course: Path, student: str) -> None:
    """Of the notebook that was handed in, and of the one that nbgrader executed."""
    for place in ("submitted", "autograded"):
        sheet = grade_file(course / place / student / ASSIGNMENT / f"{STEM}.ipynb")
        assert (sheet.problem, sheet.points, len(sheet.grades)) == ("", POINTS[student], 3)


def test_released_notebook_keeps_the_cells_of_the_student(course: Path) -> None:
    """nbgrader replaces solution cells by `raise NotImplementedError()`; cells of ours stay."""
    released = read(course / "release" / ASSIGNMENT / f"{STEM}.ipynb")["cells"]
    (answers,) = [cell for cell in released if "answer" in cell["metadata"].get("tags", [])]
    assert "bdp_mib = None" in "".join(answers["source"])
    (check,) = [cell for cell in released if "check" in cell["metadata"].get("tags", [])]
    assert check["metadata"]["editable"] is False and check["metadata"]["deletable"] is False


def test_a_wrong_answer_shows_its_hint_in_the_graded_notebook(course: Path) -> None:
    cells = read(course / "autograded" / "wrong" / ASSIGNMENT / f"{STEM}.ipynb")["cells"]
    (graded,) = [cell for cell in cells if cell["id"] == "points-bdp_mib"]
    shown = "".join(
        "".join(output["text"]) for output in graded["outputs"] if output["output_type"] == "stream"
    )
    assert "wrong" in shown and "twice" in shown  # the mistake that 5.245 MiB is
