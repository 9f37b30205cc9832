"""Mutated captures: a few thousand anew, and every one that ever broke the reader.

`make fuzz-capture` reads a million and keeps what breaks it in tests/fixtures/capture/crashes.
"""

from __future__ import annotations

from pathlib import Path

from tests import fuzz_capture

KEPT = sorted(fuzz_capture.CRASHES.glob("*"))


def test_mutated_captures(tmp_path: Path) -> None:
    for path in KEPT:
        fuzz_capture.judge(path, rows=3)
    outcomes = fuzz_capture.outcomes(2, 0, 3000, tmp_path / "input")
    # Most inputs are read, some are refused: a mutation that only ever did one shows nothing.
    assert set(outcomes) == {"", "BadInput", "Damaged"}
    assert outcomes[""] > 2000
