"""Progress of a batch on a terminal: runs, notebooks, time left, and reasons for waiting."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

from labs.errors import LabError
from labs.launch.progress import LONGEST_LINE, Counts
from labs.launch.wanted import Event, Failed, Performed, Waiting
from labs.read.display.format import printable

LEAST_PAUSE_S = 0.2
TOLD_S = 10.0
"""Without a terminal, the minimum interval between two printed lines."""


class Progress(Counts):
    """Counts runs, and then notebooks; on a terminal, updates one line."""

    def __init__(
        self,
        runs: int,
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(runs, stream=stream, clock=clock)
        self._notebooks: Counts | None = None
        self._told_s = -TOLD_S

    def run(self, title: str, event: Event) -> None:
        """Receive an event of a run from the launcher."""
        self._tell(self, title, event)

    def notebooks(self, count: int) -> None:
        """The runs are complete and are followed by this many notebooks."""
        self._notebooks = Counts(count, clock=self._clock)
        self.running.clear()

    def notebook(self, number: int, error: LabError | None) -> None:
        """A notebook was executed, or stopped at an error."""
        assert self._notebooks is not None
        event = Performed() if error is None else Failed(error)
        self._tell(self._notebooks, f"notebook {number:04d}", event)

    def text(self) -> str:
        """`runs 12 of 48 (3 existed, 1 failed) | about 2 min left | default: waiting ...`."""
        counts = [(self.existing, "existed"), (self.failed, "failed")]
        text = ", ".join(f"{count} {what}" for count, what in counts if count)
        parts = [f"runs {self.done} of {self._planned}" + (f" ({text})" if text else "")]
        if books := self._notebooks:
            stopped = f" ({books.failed} stopped)" if books.failed else ""
            parts.append(f"notebooks {books.done} of {books.total}{stopped}")
        parts += filter(None, [books.left() if books else self.left()])
        waiting = [title for title, event in self.running.items() if isinstance(event, Waiting)]
        parts += [f"{title}: {self.running[title]}" for title in (waiting or [*self.running])[:2]]
        return printable(" | ".join(parts))[:LONGEST_LINE]

    def close(self) -> None:
        """End the line on a terminal."""
        self._line.end()

    def _tell(self, counts: Counts, title: str, event: Event) -> None:
        counts.count(title, event)
        if isinstance(event, Failed):
            self._line.say(f"{title}: {event}")
        pause_s = LEAST_PAUSE_S if self._line.is_terminal else TOLD_S
        is_last = counts.done == counts.total
        if is_last or self._clock() - self._told_s >= pause_s:
            self._told_s = self._clock()
            self._line.update(self.text())
