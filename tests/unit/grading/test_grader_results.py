"""The results of external graders, against what their documentation says of the files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from labs.cli.__main__ import main
from tests.student_work import RIGHT, with_answers

# https://gradescope-autograders.readthedocs.io/en/latest/specs/ ("Output format", "Test case
# status", "Controlling Test Case Visibility", "Output String Formatting"), read in November 2026.
GRADESCOPE = {
    *("score", "execution_time", "output", "output_format", "test_output_format"),
    *("test_name_format", "visibility", "stdout_visibility", "extra_data", "tests", "leaderboard"),
}
GRADESCOPE_TEST = {
    *("score", "max_score", "status", "name", "name_format", "number", "output", "output_format"),
    *("tags", "visibility", "extra_data"),
}
VISIBILITY = {"hidden", "after_due_date", "after_published", "visible"}
FORMATS = {"text", "html", "simple_format", "md", "ansi"}
# https://docs.prairielearn.com/externalGrading/ ("Grading results"), read in November 2026.
PRAIRIELEARN = {"gradable", "score", "message", "output", "images", "tests", "format_errors"}
PRAIRIELEARN_TEST = {
    *("name", "description", "points", "max_points", "message", "output", "images")
}
MOST_PRAIRIELEARN_BYTES = 1 << 20

CASES: list[tuple[dict[str, str], int]] = [
    (RIGHT, 3),
    ({**RIGHT, "limit": '"send buffer"'}, 2),
    ({**RIGHT, "bdp_mib": "'<script>alert(1)</script>'"}, 2),
    ({}, 0),
]


def result(flag: str, notebook: Path, into: Path) -> tuple[int, Any]:
    file = into / "results" / "results.json"
    code = main(["grade", str(notebook), flag, str(file)])
    return code, json.loads(file.read_text())


@pytest.mark.parametrize(("answers", "points"), CASES)
def test_gradescope_results_have_the_documented_fields(
    answers: dict[str, str], points: int, tmp_path: Path
) -> None:
    notebook = with_answers("00-start-here", tmp_path / "submission", answers)
    code, content = result("--gradescope", notebook, tmp_path)
    assert code == 0
    assert content.keys() <= GRADESCOPE and content["visibility"] in VISIBILITY
    formats = [value for name, value in content.items() if name.endswith("_format")]
    assert {*formats} <= FORMATS
    assert content["score"] == points == sum(test["score"] for test in content["tests"])
    for test in content["tests"]:
        assert test.keys() <= GRADESCOPE_TEST
        assert test["status"] == ("passed" if test["score"] == test["max_score"] else "failed")
        assert isinstance(test["number"], str) and test["output"]


@pytest.mark.parametrize(("answers", "points"), CASES)
def test_prairielearn_results_have_the_documented_fields(
    answers: dict[str, str], points: int, tmp_path: Path
) -> None:
    notebook = with_answers("00-start-here", tmp_path / "submission", answers)
    code, content = result("--prairielearn", notebook, tmp_path)
    assert code == 0
    assert content.keys() <= PRAIRIELEARN and content["gradable"] is True
    assert content["score"] == points / 3 and isinstance(content["score"], float)
    assert sum(test["points"] for test in content["tests"]) == points
    assert all(test.keys() <= PRAIRIELEARN_TEST for test in content["tests"])
    assert len(json.dumps(content)) < MOST_PRAIRIELEARN_BYTES


def test_what_cannot_be_graded_is_a_result_too(tmp_path: Path) -> None:
    """A grader without results.json is an error of the lecturer's; a damaged file is not."""
    notebook = tmp_path / "00-start-here.ipynb"
    notebook.write_text("{")
    code, content = result("--gradescope", notebook, tmp_path)
    assert (code, content["score"], "tests" in content) == (0, 0, False)
    assert "is not JSON" in content["output"]
    (tmp_path / "results" / "results.json").unlink()
    code, content = result("--prairielearn", notebook, tmp_path)
    assert (code, content["gradable"], "score" in content) == (0, False, False)
    assert "is not JSON" in content["format_errors"][0]


def test_a_folder_of_one_submission_is_graded_as_one(tmp_path: Path) -> None:
    """What the graders' containers hold: a folder with the student's files."""
    with_answers("00-start-here", tmp_path / "submission", RIGHT)
    (tmp_path / "submission" / "submission_metadata.json").write_text("{}")
    assert result("--gradescope", tmp_path / "submission", tmp_path)[1]["score"] == 3


@pytest.mark.parametrize("notebooks", [0, 2])
def test_a_submission_without_the_notebook_has_a_result(notebooks: int, tmp_path: Path) -> None:
    (tmp_path / "submission").mkdir()
    for number in range(notebooks):
        with_answers("00-start-here", tmp_path / "submission" / str(number), RIGHT)
    code, content = result("--gradescope", tmp_path / "submission", tmp_path)
    assert (code, content["score"]) == (0, 0)
    assert ("has 2 files" if notebooks else "has no notebooks") in content["output"]
