"""The exercises of the notebook about the network stack; all their figures are given."""

from __future__ import annotations

from pathlib import Path

from labs.read.exercises import exercise

EXERCISES, GUESSES = exercise.read(Path(__file__).with_suffix(".toml"))
