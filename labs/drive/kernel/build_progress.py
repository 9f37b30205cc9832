"""How far a build is: a bar on a terminal, a line each tenth elsewhere."""

from __future__ import annotations

import sys
from typing import TextIO

WIDTH = 30


class Progress:
    """Shows the steps of one piece of work on stderr; `quiet` shows nothing."""

    def __init__(self, *, quiet: bool = False, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._quiet = quiet
        self._bar = self._stream.isatty()
        self._tenth = 0
        self._drawn = False

    def step(self, text: str) -> None:
        """Say what begins now."""
        self._tenth = 0
        if self._quiet:
            return
        self._clear()
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def part(self, done: int, of: int, what: str) -> None:
        """Say how much of the present step is done."""
        if self._quiet:
            return
        percent = min(99, 100 * done // max(of, 1))
        if self._bar:
            filled = WIDTH * percent // 100
            bar = "#" * filled + "-" * (WIDTH - filled)
            self._stream.write(f"\r[{bar}] {percent:3d} %  {what[:40]:<40}")
            self._drawn = True
        elif percent // 10 > self._tenth:
            self._tenth = percent // 10
            self._stream.write(f"{self._tenth * 10} %  {what}\n")
        self._stream.flush()

    def close(self) -> None:
        """Take the bar away."""
        self._clear()
        self._stream.flush()

    def _clear(self) -> None:
        if self._drawn:
            self._stream.write("\r" + " " * (WIDTH + 50) + "\r")
            self._drawn = False
