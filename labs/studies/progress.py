"""Progress of runs while they are performed, in a notebook or on a terminal: one line with what is
done and how long the rest will take."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, TextIO

from labs.launch.progress_lines import EXISTS, FAILED, MADE, WAITING, is_last
from labs.read.display.format import in_runs, printable

LONG_S = 90.0
"""From here on a remaining time is given in minutes."""
CELLS = 24
LONGEST_LINE = 100


class Line:
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


def time_left(since_s: float, now_s: float, done: int, waiting: int) -> str:
    """`about 3 min left`, by the time that what is done took; empty before that."""
    if not done or not waiting:
        return ""
    seconds = (now_s - since_s) / done * waiting
    return (
        f"about {seconds:.0f} s left" if seconds < LONG_S else f"about {seconds / 60:.0f} min left"
    )


class Bar:
    """A progress bar for the runs of a study; nothing is shown if all of them exist already, and in
    a notebook an output without data remains of it once they do.

    `groups` are the titles of the conditions' groups, for the plan that is printed first.
    """

    def __init__(
        self,
        lab: str,
        conditions: Sequence[str],
        groups: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lab = lab
        self._groups = groups
        self._at = dict.fromkeys(conditions, "")
        self._shown = False
        self._display: Any = None
        self._line = Line()
        self._clock = clock
        self._started_s = 0.0

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if self._display is not None and error is None:
            self._display.update({}, raw=True)
        elif self._shown and self._display is None:
            self._line.end()

    def tell(self, condition: str, line: str) -> None:
        """Receive a progress line of one run from `labs.launch.launch.run`."""
        self._at[condition] = line
        if not self._shown and line != EXISTS:
            self._started_s = self._clock()
            self._say(self.plan())
        if line.startswith(WAITING):
            self._say(f"{self._lab} {condition}: {line}")
        if self._shown or line != EXISTS:
            self._show(is_last(line))

    def plan(self) -> str:
        """`buffers: 30 runs; 3 exist, 27 to perform. Conditions: 10 Sweep, 20 Memory pressure`."""
        counts = Counter(self._groups)
        total, exist = len(self._at), self._count(lambda line: line == EXISTS)
        text = f"{self._lab}: {in_runs(total)}; {exist} exist, {total - exist} to perform"
        if len(counts) < 2:
            return text
        parts = ", ".join(f"{count} {title}" for title, count in counts.items())
        return f"{text}. Conditions: {parts}"

    def left(self) -> str:
        """`about 3 min left`, by the time that the runs so far took; empty before the first."""
        made = self._count(lambda line: line == MADE)
        return time_left(self._started_s, self._clock(), made, len(self._at) - self._count(is_last))

    def text(self) -> str:
        """`buffers ████████░░░░ 2 of 3 runs | about 4 s left | both: 4 s`, with as many runs as fit
        into a line; a line of a run that is too long ends at its colon."""
        ready, total = self._count(is_last), len(self._at)
        full = round(CELLS * ready / max(1, total))
        failed = self._count(lambda line: line.startswith(f"{FAILED}: "))
        text = f"{self._lab} {'█' * full}{'░' * (CELLS - full)} {ready} of {total} runs"
        text += f" ({failed} failed)" if failed else ""
        shown = printable(" | ".join(filter(None, [text, self.left()])))
        for name, line in self._at.items():
            if line and not is_last(line):
                under_way = printable(f"{name}: {line}")
                short = ":".join(under_way.split(":")[:2])
                longer = [f"{shown} | {words}" for words in (under_way, short)]
                shown = next((text for text in longer if len(text) <= LONGEST_LINE), shown)
        return shown

    def _count(self, matches: Callable[[str], bool]) -> int:
        return sum(map(matches, self._at.values()))

    def _say(self, line: str) -> None:
        """Print a line at once, even where the bar shows only the runs that are ready."""
        if not in_a_notebook():
            self._line.say(line)

    def _show(self, ready: bool) -> None:
        text = self.text()
        if in_a_notebook():
            self._show_in_notebook(text)
        elif self._line.is_terminal or ready:
            self._line.update(text)
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
