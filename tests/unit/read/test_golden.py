"""What is read of recorded outputs and captures is what the files in tests/golden/read have."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.golden import FOLDER, changed, written
from tests.golden_reading import explained, parsed


@pytest.mark.parametrize("read", [parsed, explained])
def test_recorded_outputs_are_read_as_before(
    read: Callable[[], object], request: pytest.FixtureRequest
) -> None:
    """After a wanted change: --refresh-golden, and read the difference."""
    file = FOLDER / "read" / f"{read.__name__}.json"
    now = json.loads(json.dumps(dict(read())))  # type: ignore[call-overload]
    if request.config.getoption("refresh_golden"):
        file.write_text(written(now))
    kept = json.loads(file.read_text())
    assert not changed(kept, now), f"--refresh-golden writes {file.name} again"
