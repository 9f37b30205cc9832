"""Guesses next to predictions and measurements."""

from __future__ import annotations

import math
from typing import Any

import pytest

from labs.errors import BadInput
from labs.read.display.beside import guesses


def test_guesses_have_the_ratio_of_measurement_and_guess() -> None:
    table = guesses({"default": (20.0, 13.5, 13.6), "both": (None, 114.0, 114.0)}, "MiB/s")
    assert list(table) == [
        "Guessed",
        "Your guess (MiB/s)",
        "Predicted (MiB/s)",
        "Measured (MiB/s)",
        "Measured / guess",
    ]
    assert table["Measured / guess"][0] == pytest.approx(0.68)
    assert math.isnan(table["Measured / guess"][1])
    assert math.isnan(table["Your guess (MiB/s)"][1])


def test_guesses_without_a_prediction_have_no_column_for_it() -> None:
    table = guesses({"a": (1.0, None, 2.0), "b": (None, None, None)}, "ms")
    assert list(table) == ["Guessed", "Your guess (ms)", "Measured (ms)", "Measured / guess"]


@pytest.mark.parametrize("guess", [0, 0.0])
def test_guesses_of_zero_have_no_ratio(guess: float) -> None:
    assert math.isnan(guesses({"a": (guess, None, 1.0)}, "ms")["Measured / guess"][0])


def test_guesses_have_no_figure_where_it_is_meaningless() -> None:
    table = guesses({"off": (40.0, 44.0, 43.9), "on": (0.5, 0.0008, 0.0028)}, "ms", below=1)
    assert table["Predicted (ms)"].tolist() == [44.0, "below 1"]
    assert table["Measured (ms)"].tolist() == [43.9, "below 1"]
    assert table["Your guess (ms)"].tolist() == [40.0, 0.5]
    assert table["Measured / guess"][0] == pytest.approx(1.0975)
    assert math.isnan(table["Measured / guess"][1])


def test_guesses_of_nothing_is_an_empty_table() -> None:
    assert guesses({}, "ms").empty


@pytest.mark.parametrize("guess", ["24", True, [1]])
def test_guesses_refuse_what_is_not_a_number(guess: Any) -> None:
    with pytest.raises(BadInput, match="Write a number in ms, or None"):
        guesses({"off": (guess, None, None)}, "ms")
