"""What tshark says of the segments of a capture: the marks of its sequence analysis."""

from __future__ import annotations

from pathlib import Path

from labs.read.capture.tcp_marks import MARKS
from tests.tshark import asked


def marked_by_tshark(path: Path) -> dict[str, list[int]]:
    """For each mark that there is the rows that have it, counted over TCP segments from 0."""
    lines = asked(path, tuple(f"tcp.analysis.{name}" for name in MARKS))
    found = {
        name: [row for row, values in enumerate(lines) if values[place]]
        for place, name in enumerate(MARKS)
    }
    return {name: rows for name, rows in found.items() if rows}
