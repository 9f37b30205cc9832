"""Progress of a batch on a terminal: runs, notebooks, time left, and reasons for waiting."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

from labs.errors import LabError
from labs.launch.progress_lines import EXISTS, FAILED, WAITING, is_last
from labs.read.display.format import printable
from labs.studies.progress import LONGEST_LINE, Line, time_left

LEAST_PAUSE_S = 0.2
TOLD_S = 10.0
"""Without a terminal, the minimum interval between two printed lines."""


class Progress:
    """Counts runs and notebooks; on a terminal, updates one line."""

    def __init__(
        self,
        runs: int,
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total, self._line, self._clock = runs, Line(stream), clock
        self._made = self._existing = self._failed = 0
        self._notebooks = self._executed = self._stopped = 0
        self._begun_s = clock()
        self._told_s = -TOLD_S
        self._at: dict[str, str] = {}

    def run(self, title: str, line: str) -> None:
        """Receive a line about a run from the launcher."""
        if is_last(line):
            self._at.pop(title, None)
            self._existing += line == EXISTS
            failed = line.startswith(f"{FAILED}: ")
            self._failed += failed
            self._made += line != EXISTS and not failed
            if failed:
                self._line.say(f"{title}: {line}")
        else:
            self._at[title] = line
        self._show(last=self._made + self._existing + self._failed == self._total)

    def notebooks(self, count: int) -> None:
        """The runs are complete and are followed by this many notebooks."""
        self._notebooks, self._begun_s = count, self._clock()
        self._at.clear()

    def notebook(self, number: int, error: LabError | None) -> None:
        """A notebook was executed, or stopped at an error."""
        self._executed += error is None
        self._stopped += error is not None
        if error is not None:
            self._line.say(f"notebook {number:04d}: {error}")
        self._show(last=self._executed + self._stopped == self._notebooks)

    def text(self) -> str:
        """`runs 12 of 48 (3 existed, 1 failed) | about 2 min left | default: waiting ...`."""
        done = self._made + self._existing + self._failed
        counts = [(self._existing, "existed"), (self._failed, "failed")]
        text = ", ".join(f"{count} {what}" for count, what in counts if count)
        parts = [f"runs {done} of {self._total}" + (f" ({text})" if text else "")]
        if self._notebooks:
            ready = self._executed + self._stopped
            stopped = f" ({self._stopped} stopped)" if self._stopped else ""
            parts.append(f"notebooks {ready} of {self._notebooks}{stopped}")
        if left := self._left():
            parts.append(left)
        waiting = [name for name, line in self._at.items() if line.startswith(WAITING)]
        parts += [f"{name}: {self._at[name]}" for name in (waiting or list(self._at))[:2]]
        return printable(" | ".join(parts))[:LONGEST_LINE]

    def _left(self) -> str:
        if self._notebooks:
            done = self._executed + self._stopped
            waiting = self._notebooks - done
        else:
            done = self._made + self._failed
            waiting = self._total - done - self._existing
        return time_left(self._begun_s, self._clock(), done, waiting)

    def close(self) -> None:
        """End the line on a terminal."""
        self._line.end()

    def _show(self, *, last: bool) -> None:
        pause_s = LEAST_PAUSE_S if self._line.is_terminal else TOLD_S
        if last or self._clock() - self._told_s >= pause_s:
            self._told_s = self._clock()
            self._line.update(self.text())
