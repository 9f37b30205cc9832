"""Answers that are right, wrong by a known reason, missing, or of the wrong kind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labs.catalog import find
from labs.drive.parameters.declare import Scalar
from labs.read.exercises.exercise import Evidence, Exercise, Expected, Mistake, of_lab
from labs.read.exercises.graded_answer import MISSING, RIGHT, UNREADABLE, WRONG, grade, unanswered
from labs.read.runs.run import Run
from tests.real_runs import nagle_run

# 1000 Mbit/s and 200 ms: 25 MB, which are 23.84 MiB.
BDP = Expected("rate x RTT", 0.98 * 25e6 / 2**20, 1.02 * 25e6 / 2**20)
NAGLE = find("nagle")
TIME = Expected("", 392.0, 408.0)
LIMIT = Expected("a run", choice="send buffer", mistakes=(Mistake("link", "The link is idle."),))


def exercise(unit: str = "MiB", choices: tuple[str, ...] = ()) -> Exercise:
    return Exercise(
        name="answer",
        notebook="00-test",
        asks="a question",
        checked="",
        right=("1",),
        unit=unit,
        choices=choices,
    )


@pytest.mark.parametrize("answer", [23.84, 23.8, 24.0, 23.5])
def test_grade_accepts_answers_within_the_tolerance(answer: float) -> None:
    graded = grade(exercise(), answer, BDP)
    assert (graded.verdict, graded.hint) == (RIGHT, "")


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (25.0, "right in MB"),
        (24414.0, "right in KiB"),
        (25e6, "right in bytes"),
        (200.0, "right in Mbit"),
        (47.7, "twice the right value"),
        (11.9, "half the right value"),
        (190.7, "bits instead of bytes"),
        (2.98, "an eighth"),
        (0.0238, "a thousandth"),
        (31.0, "too large"),
        (-23.84, "too small"),
    ],
)
def test_grade_says_what_a_wrong_number_is_off_by(answer: float, hint: str) -> None:
    graded = grade(exercise(), answer, BDP)
    assert graded.verdict == WRONG
    assert hint in graded.hint and "\n" not in graded.hint


@pytest.mark.parametrize(("answer", "hint"), [(0.4, "right in s"), (400e3, "right in us")])
def test_grade_says_another_unit_of_time(answer: float, hint: str) -> None:
    assert hint in grade(exercise("ms"), answer, TIME).hint


@pytest.mark.parametrize("answer", [3200.0, 50.0])
def test_grade_of_a_time_speaks_of_no_bits(answer: float) -> None:
    assert "bits" not in grade(exercise("ms"), answer, TIME).hint


def test_grade_names_a_known_mistake_before_a_factor() -> None:
    expected = replace(TIME, mistakes=(Mistake(200.0, "The handshake is missing."),))
    assert grade(exercise("ms"), 200.0, expected).hint == "The handshake is missing."


def test_grade_of_choices_ignores_case_and_blanks() -> None:
    asked = exercise("", ("link", "receive window", "send buffer"))
    assert grade(asked, " Send  Buffer", LIMIT).verdict == RIGHT
    assert grade(asked, "link", LIMIT).hint == "The link is idle."
    assert grade(asked, "receive window", LIMIT).verdict == WRONG
    assert "link, receive window, send buffer" in grade(asked, "cwnd", LIMIT).hint


def test_grade_of_a_missing_answer_says_what_to_give() -> None:
    assert unanswered(exercise()).verdict == MISSING
    assert "MiB" in unanswered(exercise()).hint


def test_grade_of_another_kind_is_unreadable() -> None:
    assert grade(exercise(), "24", BDP).verdict == UNREADABLE
    assert grade(exercise("", ("link",)), 24.0, LIMIT).verdict == UNREADABLE


class OneRun(Evidence):
    """A run of which `p50_ms` is known."""

    def run(self, condition: str, **parameters: Scalar) -> Run | None:
        return nagle_run("off") if parameters == {"delay_ms": 20.0} else None

    def column(self, run: Run, name: str) -> Any:
        return 110.0 if name == "p50_ms" else None


FILE = """
[00-test.answer]
asks = "a question"
unit = "ms"
given = { delay_ms = 20.0 }
right = ["5 * delay_ms", "off.p50_ms", "off.mean_ms"]
pct = 1
checked = "the theory of {delay_ms} ms"
mistakes = { "Not twice." = ["10 * delay_ms", "100.5", "off.mean_ms"] }
"""


def test_expected_spans_all_values_and_names_the_run(tmp_path: Path) -> None:
    """A right answer is no mistake, and neither is a figure that is not known."""
    (tmp_path / "exercises.toml").write_text(FILE)
    ledger = tmp_path / "article.toml"
    ((declared,), guesses) = of_lab(replace(NAGLE, ledger=ledger, part=lambda name: None))
    expected = declared.expected(OneRun("6.1"))
    assert (expected.low, expected.high) == (99.0, 110.0 * 1.01)
    assert expected.checked == f"the theory of 20 ms; the run {nagle_run('off').name}"
    assert expected.mistakes == (Mistake(200.0, "Not twice."),)
    assert declared.expected(Evidence("6.1")).high == 101.0 and guesses == ()
