"""Mutated captures: a few thousand anew, and every one that ever broke the reader.

`make fuzz-capture` reads a million and keeps what breaks it in tests/fixtures/capture/crashes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import fuzz_capture

KEPT = sorted(fuzz_capture.CRASHES.glob("*"))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.name)
def test_what_broke_the_reader_once(path: Path) -> None:
    fuzz_capture.judge(path, rows=3)


def test_a_few_thousand_anew(tmp_path: Path) -> None:
    outcomes = fuzz_capture.outcomes(2, 0, 3000, tmp_path / "input")
    # Most inputs are read, some are refused: a mutation that only ever did one shows nothing.
    assert set(outcomes) == {"", "BadInput", "Damaged"}
    assert outcomes[""] > 2000
