"""Progress of a batch on a terminal: runs, notebooks, time left, and reasons for waiting."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

from labs.errors import LabError
from labs.launch.progress import LONGEST_LINE, WAITING, Counts, has_failed
from labs.read.display.format import printable

LEAST_PAUSE_S = 0.2
TOLD_S = 10.0
"""Without a terminal, the minimum interval between two printed lines."""


class Progress(Counts):
    """Counts runs and notebooks; on a terminal, updates one line."""

    def __init__(
        self,
        runs: int,
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(runs, stream=stream, clock=clock)
        self._notebooks = self._executed = self._stopped = 0
        self._told_s = -TOLD_S

    def run(self, title: str, line: str) -> None:
        """Receive a line about a run from the launcher."""
        self.count(title, line)
        if has_failed(line):
            self._line.say(f"{title}: {line}")
        self._show(last=self.done == self._planned)

    def notebooks(self, count: int) -> None:
        """The runs are complete and are followed by this many notebooks."""
        self._notebooks, self._begun_s = count, self._clock()
        self.running.clear()

    def notebook(self, number: int, error: LabError | None) -> None:
        """A notebook was executed, or stopped at an error."""
        self._executed += error is None
        self._stopped += error is not None
        if error is not None:
            self._line.say(f"notebook {number:04d}: {error}")
        self._show(last=self._executed + self._stopped == self._notebooks)

    def text(self) -> str:
        """`runs 12 of 48 (3 existed, 1 failed) | about 2 min left | default: waiting ...`."""
        counts = [(self.existing, "existed"), (self.failed, "failed")]
        text = ", ".join(f"{count} {what}" for count, what in counts if count)
        parts = [f"runs {self.done} of {self._planned}" + (f" ({text})" if text else "")]
        if self._notebooks:
            ready = self._executed + self._stopped
            stopped = f" ({self._stopped} stopped)" if self._stopped else ""
            parts.append(f"notebooks {ready} of {self._notebooks}{stopped}")
        parts += filter(None, [self.left()])
        waiting = [title for title, line in self.running.items() if line.startswith(WAITING)]
        parts += [f"{title}: {self.running[title]}" for title in (waiting or [*self.running])[:2]]
        return printable(" | ".join(parts))[:LONGEST_LINE]

    def left(self) -> str:
        ready = self._executed + self._stopped
        return (
            self._time_left(ready, self._notebooks - ready) if self._notebooks else super().left()
        )

    def close(self) -> None:
        """End the line on a terminal."""
        self._line.end()

    def _show(self, *, last: bool) -> None:
        pause_s = LEAST_PAUSE_S if self._line.is_terminal else TOLD_S
        if last or self._clock() - self._told_s >= pause_s:
            self._told_s = self._clock()
            self._line.update(self.text())
