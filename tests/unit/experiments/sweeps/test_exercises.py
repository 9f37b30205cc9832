"""The graded exercises of the notebook about buffer sweeps."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from labs.catalog import find
from labs.drive.parameters.declare import Scalar
from labs.experiments.sweeps.exercises import CONDITION, EXERCISES, LARGER_KIB
from labs.grading.run_evidence import RunEvidence
from labs.read.exercises.exercise import Exercise
from labs.read.exercises.graded_answer import RIGHT, WRONG, judge
from labs.read.runs.run import Run

BY_NAME = {one.name: one for one in EXERCISES}


class NoRuns:
    """Evidence without runs, on one kernel."""

    drawn: Mapping[str, Scalar] = {}

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel

    def run(self, condition: str, **parameters: Scalar) -> Run | None:
        assert (condition, parameters) == (CONDITION, {"sndbuf_kib": LARGER_KIB})
        return None


def asked(name: str) -> Exercise:
    return BY_NAME[name]


@pytest.mark.parametrize("kernel", ["5.10", "6.1", "6.12", "7.2"])
def test_answers_worked_out_by_hand_are_right(kernel: str) -> None:
    """2 x 212,992 bytes; 0.2 ms x 40,000 / 250; two thirds of 256 KiB per 8 ms, because a writer
    is woken when a third is free; the smaller buffer is the receiver's, and smaller than the BDP of
    1 MB."""
    answers: dict[str, float | str] = {
        "granted_kib": 416.0,
        "same_bdp_ms": 32.0,
        "larger_mib_s": 20.8,
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
        ("larger_mib_s", 114.0, "does not fill the link"),
        ("larger_mib_s", 13.4, "for 64 KiB"),
        ("larger_mib_s", 31.25, "Not all of the granted"),
        ("limit", "send buffer", "larger than the receive buffer"),
        ("limit", "link", "smaller than the BDP"),
    ],
)
def test_known_mistakes_have_their_hint(name: str, answer: float | str, hint: str) -> None:
    one = asked(name)
    found = judge(one, answer, one.expected(NoRuns("6.1")))
    assert found.verdict == WRONG and hint in found.hint


def test_larger_goodput_is_measured_too() -> None:
    """A recorded or own run widens the range, if there is one."""
    one = asked("larger_mib_s")
    expected = one.expected(RunEvidence(find("sweeps"), "6.1"))
    assert expected.low < 20.512 < expected.high  # measured on Linux 6.1.192
