"""The grade of one answer, with a hint if it is off by a known reason."""

from __future__ import annotations

from dataclasses import dataclass

from labs.guest.units import KIB, MIB
from labs.read.exercises.exercise import Answer, Exercise, Expected

RIGHT, WRONG, MISSING, UNREADABLE = "right", "wrong", "missing", "unreadable"

MISTAKE_PCT = 1.0
"""An answer this close to a known mistake is taken for it; answers have three digits."""

# How many of another unit are one of the unit: an answer in it is that many times too large.
OTHER_UNITS: dict[str, dict[str, float]] = {
    "MiB": {"MB": MIB / 1e6, "KiB": MIB / KIB, "kB": MIB / 1e3, "bytes": MIB}
    | {"Mbit": 8 * MIB / 1e6, "bits": 8 * MIB},
    "MiB/s": {"MB/s": MIB / 1e6, "bytes/s": MIB, "Mbit/s": 8 * MIB / 1e6, "bit/s": 8 * MIB},
    "KiB": {"kB": KIB / 1e3, "MiB": KIB / MIB, "bytes": KIB, "bits": 8 * KIB},
    "ms": {"s": 1e-3, "us": 1e3},
    "%": {"fractions of 1": 1e-2},
}
FACTORS = {2.0: "twice the right value", 0.5: "half the right value"}
DATA_FACTORS = FACTORS | {
    8.0: "8 times the right value: bits instead of bytes?",
    0.125: "an eighth of the right value: bytes instead of bits?",
    1e3: "1000 times the right value: a time in ms instead of s?",
    1e-3: "a thousandth of the right value: a time in s instead of ms?",
}
"""Slips in the product or quotient of a rate and a time, for answers in one of DATA_UNITS."""
DATA_UNITS = frozenset({"MiB", "MiB/s", "KiB", "bytes"})


@dataclass(frozen=True)
class Graded:
    """One answer with its verdict, such as RIGHT; `hint` says why it is not right."""

    exercise: Exercise
    answer: Answer | None
    verdict: str
    hint: str
    checked: str

    def as_json(self) -> dict[str, object]:
        return {
            "exercise": self.exercise.name,
            "asks": self.exercise.asks,
            "unit": self.exercise.unit,
            "answer": self.answer,
            "verdict": self.verdict,
            "hint": self.hint,
            "checked_against": self.checked,
        }


def unanswered(exercise: Exercise) -> Graded:
    """An exercise without an answer, for which nothing is computed."""
    return Graded(exercise, None, MISSING, _asked_for(exercise), "")


def grade(exercise: Exercise, answer: Answer, expected: Expected) -> Graded:
    """Grade an answer."""
    is_text = isinstance(answer, str)
    if is_text != bool(exercise.choices):
        kind = f"{answer!r} is a text" if is_text else f"{answer:g} is a number"
        hint = f"{kind}. {_asked_for(exercise)}"
        return Graded(exercise, answer, UNREADABLE, hint, expected.checked)
    if isinstance(answer, str):
        hint = _on_choice(exercise, answer, expected)
    else:
        hint = _on_number(exercise, answer, expected)
    return Graded(exercise, answer, WRONG if hint else RIGHT, hint, expected.checked)


def _asked_for(exercise: Exercise) -> str:
    if exercise.choices:
        return f"Answer with one of: {', '.join(exercise.choices)}."
    return f"Answer with a number ({exercise.unit})."


def _on_choice(exercise: Exercise, answer: str, expected: Expected) -> str:
    word = " ".join(answer.split()).casefold().removeprefix("the ")
    if expected.is_right(word):
        return ""
    hints = {str(mistake.value).casefold(): mistake.hint for mistake in expected.mistakes}
    again = {choice.casefold(): "Look at the runs again." for choice in exercise.choices}
    return (again | hints).get(word) or _asked_for(exercise)


def _on_number(exercise: Exercise, answer: float, expected: Expected) -> str:
    """Why a number is not right; empty if it is."""
    low, high = expected.low, expected.high
    if low <= answer <= high:
        return ""
    for mistake in expected.mistakes:
        value = float(mistake.value)
        if abs(answer - value) <= abs(value) * MISTAKE_PCT / 100:
            return mistake.hint
    for unit, times in OTHER_UNITS.get(exercise.unit, {}).items():
        if low <= answer / times <= high:
            return f"This is right in {unit}. Give the answer in {exercise.unit}."
    factors = DATA_FACTORS if exercise.unit in DATA_UNITS else FACTORS
    for factor, words in factors.items():
        if low <= answer / factor <= high:
            return f"This is {words}."
    return "This is too large." if answer > high else "This is too small."
