"""What tshark says of the segments of a capture: the marks of its sequence analysis."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from labs.capture.marks import MARKS


def version() -> str:
    """Such as 4.0; nothing where there is no tshark."""
    if shutil.which("tshark") is None:
        return ""
    done = subprocess.run(["tshark", "--version"], capture_output=True, text=True, check=True)
    return ".".join(done.stdout.split("Wireshark) ")[-1].split(".")[:2])


def marked_by_tshark(path: Path) -> dict[str, list[int]]:
    """For each mark that there is the rows that have it, counted over TCP segments from 0."""
    fields = [word for name in MARKS for word in ("-e", f"tcp.analysis.{name}")]
    done = subprocess.run(
        ["tshark", "-r", str(path), "-Y", "tcp", "-T", "fields", "-E", "separator=/t", *fields],
        capture_output=True, text=True, check=True)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    found = {name: [row for row, values in enumerate(lines) if values[place]]
             for place, name in enumerate(MARKS)}
    return {name: rows for name, rows in found.items() if rows}
