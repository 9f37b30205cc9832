"""Plans of batches, written by tests, and the line at which a plan is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from labs.batches.plan_file import PlanFile, read_plan
from labs.errors import BadInput


def write_plan(folder: Path, text: str | bytes, *, name: str = "plan.yaml") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def plan(folder: Path, text: str, *, subject: str | None = None) -> PlanFile:
    """The plan with this text; `lab: buffers` is its first line unless a subject is given."""
    return read_plan(write_plan(folder, of_buffers(text, subject)), subject=subject)


def of_buffers(text: str, subject: str | None = None) -> str:
    return text if subject is not None else f"lab: buffers\n{text}"


def refused_at(path: Path, *, subject: str | None = None) -> int:
    """The line that BadInput names, in one line that begins with the file's name."""
    with pytest.raises(BadInput) as caught:
        read_plan(path, subject=subject)
    assert caught.value.exit_code == 2 and type(caught.value) is BadInput
    match = re.fullmatch(re.escape(str(path)) + r", line ([0-9]+): [^\n]+", str(caught.value))
    assert match is not None, caught.value
    return int(match[1])
