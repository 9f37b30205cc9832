"""What every lab shows is what the files below tests/golden have: conditions, their commands,
results, figures, tables and sentences, on small real studies."""

from __future__ import annotations

import json

import pytest

from labs.catalog import LABS
from tests.golden import FOLDER, changed, file_of, shown, written


@pytest.mark.parametrize("lab", LABS)
def test_a_lab_shows_what_its_golden_file_has(lab: str, request: pytest.FixtureRequest) -> None:
    """After a wanted change: --refresh-golden, and read the difference."""
    now = shown(lab)
    if request.config.getoption("refresh_golden"):
        file_of(lab).write_text(written(now))
    kept = json.loads(file_of(lab).read_text())
    assert not changed(kept, now), f"--refresh-golden writes tests/golden/{lab}.json again"


def test_every_golden_file_is_of_a_lab() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(LABS)
