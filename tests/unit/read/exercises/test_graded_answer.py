"""Answers that are right, wrong by a known reason, missing, or of the wrong kind."""

from __future__ import annotations

import pytest

from labs.read.exercises.exercise import Exercise, Expected, Mistake, around
from labs.read.exercises.graded_answer import MISSING, RIGHT, UNREADABLE, WRONG, judge, unanswered

# 1000 Mbit/s and 200 ms: 25 MB, which are 23.84 MiB.
BDP = around((25e6 / 2**20,), 2.0, "rate x RTT")
LIMIT = Expected("a run", choice="send buffer", mistakes=(Mistake("link", "The link is idle."),))


def exercise(unit: str = "MiB", choices: tuple[str, ...] = ()) -> Exercise:
    return Exercise("answer", "00-test", "a question", lambda runs: BDP, unit, choices)


@pytest.mark.parametrize("answer", [23.84, 23.8, 24.0, 23.5])
def test_judge_accepts_answers_within_the_tolerance(answer: float) -> None:
    found = judge(exercise(), answer, BDP)
    assert (found.verdict, found.hint) == (RIGHT, "")


@pytest.mark.parametrize(
    ("answer", "said"),
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
def test_judge_says_what_a_wrong_number_is_off_by(answer: float, said: str) -> None:
    found = judge(exercise(), answer, BDP)
    assert found.verdict == WRONG
    assert said in found.hint and "\n" not in found.hint


@pytest.mark.parametrize(("answer", "said"), [(0.4, "right in s"), (400e3, "right in us")])
def test_judge_says_another_unit_of_time(answer: float, said: str) -> None:
    assert said in judge(exercise("ms"), answer, around((400.0,), 2.0, "")).hint


@pytest.mark.parametrize("answer", [3200.0, 50.0])
def test_judge_of_a_time_speaks_of_no_bits(answer: float) -> None:
    assert "bits" not in judge(exercise("ms"), answer, around((400.0,), 2.0, "")).hint


def test_judge_names_a_known_mistake_before_a_factor() -> None:
    expected = around((400.0,), 2.0, "", Mistake(200.0, "The handshake is missing."))
    assert judge(exercise("ms"), 200.0, expected).hint == "The handshake is missing."


def test_judge_of_choices_ignores_case_and_blanks() -> None:
    asked = exercise("", ("link", "receive window", "send buffer"))
    assert judge(asked, " Send  Buffer", LIMIT).verdict == RIGHT
    assert judge(asked, "link", LIMIT).hint == "The link is idle."
    assert judge(asked, "receive window", LIMIT).verdict == WRONG
    assert "link, receive window, send buffer" in judge(asked, "cwnd", LIMIT).hint


def test_judge_of_a_missing_answer_says_what_to_give() -> None:
    assert unanswered(exercise()).verdict == MISSING
    assert "MiB" in unanswered(exercise()).hint


def test_judge_of_another_kind_is_unreadable() -> None:
    assert judge(exercise(), "24", BDP).verdict == UNREADABLE
    assert judge(exercise("", ("link",)), 24.0, LIMIT).verdict == UNREADABLE
