"""Mutated captures: a few hundred anew, and every one that ever broke the reader.

`make fuzz-capture` reads a million and keeps what breaks it in tests/fixtures/capture/crashes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests import fuzz_capture, fuzz_explain

KEPT = sorted(fuzz_capture.CRASHES.glob("*"))


def test_outcomes_of_mutated_captures(tmp_path: Path) -> None:
    for path in KEPT:
        fuzz_capture.judge(path, rows=3)
    outcomes = fuzz_capture.outcomes(2, 0, 3_000, tmp_path / "input")
    # Most inputs are read, some are refused: a mutation that only ever did one shows nothing.
    assert set(outcomes) <= {"", "BadInput", "Damaged"} and outcomes["Damaged"]
    assert outcomes[""] > 2_000


def test_explain_all_of_mutated_captures_and_tunnels(tmp_path: Path) -> None:
    """`make fuzz-explain` explains a million."""
    explained, crashes = fuzz_explain.explain_all(3, 0, 500, tmp_path)
    assert crashes == 0 and explained > 300


BROKEN = """
import os, signal, sys
from tests import fuzz_capture
judged = sys.argv.pop(1)
def judge(path, rows=None, deep=True):
    number = path.with_suffix(".number").read_text()
    if number in ("103", "104"):
        os.abort()
    if number == "210":
        os.kill(os.getpid(), signal.SIGTERM)
    if number == "107":
        raise AssertionError
    with open(judged, "a") as file:
        file.write(number + " ")
    return ""
fuzz_capture.judge = judge
sys.exit(fuzz_capture.main())
"""


def test_worked_continues_after_an_input_that_breaks_the_reader(tmp_path: Path) -> None:
    """By a reader that is broken by three of them; a process that is stopped is no such end."""
    current, judged = tmp_path / "input", tmp_path / "judged"
    command, crashes = (sys.executable, "-c", BROKEN, str(judged)), tmp_path / "crashes"
    kept = fuzz_capture.worked(command, 5, 100, 9, current, crashes)
    assert [path.name for path in kept] == [f"seed-5-input-{one}" for one in (103, 104, 107)]
    assert judged.read_text().split() == ["100", "101", "102", "105", "106", "108"]
    with pytest.raises(SystemExit, match="stopped from outside"):
        fuzz_capture.worked(command, 5, 210, 2, current, crashes)
    assert kept == sorted(crashes.iterdir())
    assert len({path.read_bytes() for path in kept}) == 3
