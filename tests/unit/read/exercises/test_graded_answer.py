"""Answers that are right, wrong by a known reason, missing, or of the wrong kind."""

from __future__ import annotations

import pytest

from labs.read.exercises.exercise import Exercise, Expected, Measured, around
from labs.read.exercises.graded_answer import MISSING, RIGHT, UNREADABLE, WRONG, grade, unanswered

# 1000 Mbit/s and 200 ms: 25 MB, which are 23.84 MiB.
BDP = around(25e6 / 2**20, pct=2.0, checked="rate x RTT")
LIMIT = Expected("a run", choice="send buffer").mistake("link", "The link is idle.")


def exercise(unit: str = "MiB", choices: tuple[str, ...] = ()) -> Exercise:
    return Exercise("answer", "00-test", "a question", lambda runs: BDP, unit, choices)


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
    assert hint in grade(exercise("ms"), answer, around(400.0, pct=2.0, checked="")).hint


@pytest.mark.parametrize("answer", [3200.0, 50.0])
def test_grade_of_a_time_speaks_of_no_bits(answer: float) -> None:
    assert "bits" not in grade(exercise("ms"), answer, around(400.0, pct=2.0, checked="")).hint


def test_grade_names_a_known_mistake_before_a_factor() -> None:
    expected = around(400.0, pct=2.0, checked="").mistake(200.0, "The handshake is missing.")
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


def test_around_spans_all_values_and_names_the_run() -> None:
    expected = around(100.0, Measured("run-1", 110.0), Measured(), pct=1.0, checked="the theory")
    assert (expected.low, expected.high) == (99.0, 110.0 * 1.01)
    assert expected.checked == "the theory; the run run-1"


def test_a_right_answer_is_no_mistake() -> None:
    expected = around(100.0, pct=1.0, checked="").mistake(100.5, "").mistake(None, "")
    assert expected.mistakes == ()
    assert len(LIMIT.mistake("send buffer", "").mistakes) == 1
