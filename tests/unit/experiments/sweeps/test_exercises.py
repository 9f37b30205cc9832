"""The graded exercises of the notebook about buffer sweeps."""

from __future__ import annotations

import pytest

from labs.catalog import find
from labs.drive.parameters.declare import Scalar
from labs.experiments.sweeps.exercises import EXERCISES, LONGER_MS
from labs.grading.run_evidence import RunEvidence
from labs.read.exercises.exercise import Exercise
from labs.read.exercises.graded_answer import RIGHT, WRONG, judge
from labs.read.runs.run import Run

BY_NAME = {one.name: one for one in EXERCISES}


class NoRuns:
    """Evidence without runs, on one kernel."""

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel

    def run(self, condition: str, **parameters: Scalar) -> Run | None:
        assert (condition, parameters) == ("both-256k", {"delay_ms": LONGER_MS})
        return None


def asked(name: str) -> Exercise:
    return BY_NAME[name]


@pytest.mark.parametrize("kernel", ["5.10", "6.1", "6.12", "7.2"])
def test_answers_worked_out_by_hand_are_right(kernel: str) -> None:
    """2 x 212,992 bytes; 0.2 ms x 40,000 / 250; a window of 256 KiB or less per 16 ms; the smaller
    buffer is the receiver's, and smaller than the BDP of 1 MB."""
    answers: dict[str, float | str] = {
        "granted_kib": 416.0,
        "same_bdp_ms": 32.0,
        "longer_mib_s": 14.8,
    }
    for name, answer in {**answers, "limit": "receive window"}.items():
        one = asked(name)
        found = judge(one, answer, one.expected(NoRuns(kernel)))
        assert (found.verdict, found.hint) == (RIGHT, ""), name


@pytest.mark.parametrize(
    ("name", "answer", "hint"),
    [
        ("granted_kib", 1024.0, "limited to wmem_max first"),
        ("granted_kib", 208.0, "doubles the limited request"),
        ("granted_kib", 512.0, "limits the request, and then doubles"),
        ("same_bdp_ms", 8.0, "for 1 Gbit/s"),
        ("same_bdp_ms", 4.0, "bits per second"),
        ("longer_mib_s", 114.0, "does not fill the link"),
        ("longer_mib_s", 31.25, "Only a part"),
        ("limit", "send buffer", "larger than the receive buffer"),
        ("limit", "link", "smaller than the BDP"),
    ],
)
def test_known_mistakes_have_their_hint(name: str, answer: float | str, hint: str) -> None:
    one = asked(name)
    found = judge(one, answer, one.expected(NoRuns("6.1")))
    assert found.verdict == WRONG and hint in found.hint


def test_longer_goodput_is_half_of_that_of_the_series() -> None:
    """The same window per round trip of twice the length."""
    one = asked("longer_mib_s")
    expected = one.expected(RunEvidence(find("sweeps"), "6.1", ()))
    assert expected.low < 28.9 / 2 < expected.high
    found = judge(one, 28.9, expected)
    assert found.verdict == WRONG and "now takes longer" in found.hint
