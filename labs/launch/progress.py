"""Progress of runs: one line, in a notebook or on a terminal, with what is done and how long the
rest will take."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, TextIO

from labs.launch.wanted import ENDS, Event, Exists, Failed, Performed, Waiting
from labs.read.display.format import in_runs, printable

LONG_S = 90.0
"""From here on a remaining time is given in minutes."""
CELLS = 24
LONGEST_LINE = 100


class Screen:
    """A line that is updated in place on a terminal; elsewhere each text is a line of its own."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self.is_terminal = self._stream.isatty()

    def update(self, text: str) -> None:
        self._write(text if self.is_terminal else f"{text}\n")

    def say(self, text: str) -> None:
        """Print a line of its own, above the one that is updated."""
        self._write(f"{printable(text)}\n")

    def end(self) -> None:
        """End the line on a terminal."""
        if self.is_terminal:
            self._stream.write("\n")

    def _write(self, text: str) -> None:
        self._stream.write(f"\r\033[K{text}" if self.is_terminal else text)
        self._stream.flush()


class Counts:
    """How many runs have ended and how, and the last event of each that is running."""

    def __init__(
        self,
        runs: int,
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._planned, self._clock, self._line = runs, clock, Screen(stream)
        self._begun_s = clock()
        self.made = self.existing = self.failed = 0
        self.running: dict[str, Event] = {}

    @property
    def done(self) -> int:
        return self.made + self.existing + self.failed

    @property
    def total(self) -> int:
        """The planned runs; more, if a condition needs further repetitions."""
        return max(self._planned, self.done + len(self.running))

    def count(self, title: str, event: Event) -> None:
        """Receive an event of a run from the launcher."""
        if not isinstance(event, ENDS):
            self.running[title] = event
            return
        self.running.pop(title, None)
        self.existing += isinstance(event, Exists)
        self.failed += isinstance(event, Failed)
        self.made += isinstance(event, Performed)

    def left(self) -> str:
        """`about 3 min left`, by the time that the runs so far took; empty before the first."""
        return self._time_left(self.made + self.failed, self.total - self.done)

    def _time_left(self, done: int, waiting: int) -> str:
        if not done or not waiting:
            return ""
        seconds = (self._clock() - self._begun_s) / done * waiting
        left = f"{seconds:.0f} s" if seconds < LONG_S else f"{seconds / 60:.0f} min"
        return f"about {left} left"


class Bar(Counts):
    """A progress bar for the runs of a study; nothing is shown if all of them exist already, and in
    a notebook an output without data remains of it once they do.

    `groups` are the titles of the conditions' groups, for the plan that is printed first.
    """

    def __init__(
        self,
        lab: str,
        runs: int,
        groups: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(runs, clock=clock)
        self._lab, self._groups = lab, groups
        self._shown = False
        self._display: Any = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if self._display is not None and error is None:
            self._display.update({}, raw=True)
        elif self._shown and self._display is None:
            self._line.end()

    def tell(self, title: str, event: Event) -> None:
        """Receive an event of a run from the launcher, and show it."""
        self.count(title, event)
        if not self._shown and isinstance(event, Exists):
            return
        if not self._shown:
            self._begun_s = self._clock()
            self._say(self.plan())
        if isinstance(event, Waiting):
            self._say(f"{self._lab} {title}: {event}")
        self._show(isinstance(event, ENDS))

    def plan(self) -> str:
        """`buffers: 30 runs; 3 exist, 27 to perform. Conditions: 10 Sweep, 20 Memory pressure`."""
        missing = self.total - self.existing
        text = f"{self._lab}: {in_runs(self.total)}; {self.existing} exist, {missing} to perform"
        counts = Counter(self._groups)
        if len(counts) < 2:
            return text
        return f"{text}. Conditions: {', '.join(f'{n} {group}' for group, n in counts.items())}"

    def text(self) -> str:
        """`buffers ████████░░░░ 2 of 3 runs | about 4 s left | both: 4 s`, with as many runs as fit
        into a line; a line of a run that is too long ends at its colon."""
        full = round(CELLS * self.done / max(1, self.total))
        text = f"{self._lab} {'█' * full}{'░' * (CELLS - full)} {self.done} of {self.total} runs"
        text += f" ({self.failed} failed)" if self.failed else ""
        shown = printable(" | ".join(filter(None, [text, self.left()])))
        for title, event in self.running.items():
            whole = printable(f"{title}: {event}")
            longer = [f"{shown} | {part}" for part in (whole, ":".join(whole.split(":")[:2]))]
            shown = next((text for text in longer if len(text) <= LONGEST_LINE), shown)
        return shown

    def _say(self, line: str) -> None:
        """Print a line at once, even where the bar shows only the runs that are ready."""
        if not in_a_notebook():
            self._line.say(line)

    def _show(self, ready: bool) -> None:
        if in_a_notebook():
            self._show_in_notebook(self.text())
        elif self._line.is_terminal or ready:
            self._line.update(self.text())
        self._shown = True

    def _show_in_notebook(self, text: str) -> None:
        import IPython.display  # noqa: PLC0415  only in a notebook

        front_end: Any = IPython.display
        bundle = {"text/plain": text, "text/html": f"<code>{escape(text)}</code>"}
        if self._display is None:
            self._display = front_end.display(bundle, raw=True, display_id=True)
        else:
            self._display.update(bundle, raw=True)


def in_a_notebook() -> bool:
    """Whether a front end shows what this process displays."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None
