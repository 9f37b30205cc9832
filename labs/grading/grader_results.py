"""The grades of one notebook as results.json of external graders: Gradescope and PrairieLearn.

https://gradescope-autograders.readthedocs.io/en/latest/specs/
https://docs.prairielearn.com/externalGrading/
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labs.errors import BadInput
from labs.grading.grade_sheet import Sheet, grade_submission
from labs.grading.submissions import submissions
from labs.read.exercises.graded_answer import RIGHT, Graded

NO_ANSWERS = "It has no answer cells. Hand in the copy with your answers"
PASSED, FAILED = "passed", "failed"


def of_one(submission: Path, seeds: Mapping[str, str] | None) -> Sheet:
    """The grades of one submission: a notebook, or a folder with one. Whatever it holds, it has a
    sheet, because a grader without results reports an error of the lecturer's."""
    try:
        files = submissions(submission)
    except BadInput as error:
        return Sheet(submission, "", problem=str(error))
    if len(files) > 1:
        return Sheet(
            submission, "", problem=f"It has {len(files)} files to grade. Hand in one notebook"
        )
    return grade_submission(files[0], seeds)


def gradescope(sheet: Sheet) -> dict[str, Any]:
    """One test per question, with 1 point each. Without grades a score of 0 and the reason."""
    problem = sheet.problem or ("" if sheet.grades else NO_ANSWERS)
    if problem:
        return {"score": 0, "output": f"Not graded: {problem}", "output_format": "text"}
    return {
        "score": sheet.points,
        "output": f"{sheet.points} of {len(sheet.grades)} right.",
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "tests": [
            {
                "number": str(number),
                "name": _name(grade),
                "score": _points(grade),
                "max_score": 1,
                "status": PASSED if grade.verdict == RIGHT else FAILED,
                "output": _describe(grade),
            }
            for number, grade in enumerate(sheet.grades, 1)
        ],
    }


def prairielearn(sheet: Sheet) -> dict[str, Any]:
    """One test per question; the score is the share of right answers, from 0 to 1. What cannot be
    graded is not gradable, so that it costs no attempt."""
    problem = sheet.problem or ("" if sheet.grades else NO_ANSWERS)
    if problem:
        return {"gradable": False, "format_errors": [f"Not graded: {problem}"]}
    return {
        "gradable": True,
        "score": sheet.points / len(sheet.grades),
        "message": f"{sheet.points} of {len(sheet.grades)} right.",
        "tests": [
            {
                "name": _name(grade),
                "description": grade.exercise.asks,
                "points": _points(grade),
                "max_points": 1,
                "message": _describe(grade),
            }
            for grade in sheet.grades
        ],
    }


def _points(grade: Graded) -> int:
    return int(grade.verdict == RIGHT)


def _name(grade: Graded) -> str:
    return f"{grade.exercise.name}: {grade.exercise.asks}"


def _describe(grade: Graded) -> str:
    return grade.hint or "Right."
