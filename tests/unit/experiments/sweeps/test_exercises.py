"""The mistakes of the exercises about buffer sweeps, as students make them."""

from __future__ import annotations

import pytest

from labs.catalog import find
from labs.read.exercises.exercise import Evidence, of_lab
from labs.read.exercises.graded_answer import WRONG, grade

BY_NAME = {exercise.name: exercise for exercise in of_lab(find("sweeps"))[0]}


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
    exercise = BY_NAME[name]
    graded = grade(exercise, answer, exercise.expected(Evidence("6.1")))
    assert graded.verdict == WRONG and hint in graded.hint
