"""Progress of a study while its runs are performed, in a notebook or on a terminal: the plan, then
one line with what is done and how long the rest will take."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from labs.launch.progress_lines import EXISTS, FAILED, MADE, WAITING, is_last
from labs.read.display.format import printable

LONG_S = 90.0
"""From here on a remaining time is given in minutes."""
CELLS = 24
LONGEST_LINE = 100


class Bar:
    """A progress bar for the runs of a study; nothing is shown if all of them exist already.

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
        self._clock = clock
        self._started_s = 0.0

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown and self._display is None and sys.stderr.isatty():
            sys.stderr.write("\n")

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
        total, exist = len(self._at), sum(line == EXISTS for line in self._at.values())
        runs = "1 run" if total == 1 else f"{total} runs"
        said = f"{self._lab}: {runs}; {exist} exist, {total - exist} to perform"
        if len(counts) < 2:
            return said
        parts = ", ".join(f"{count} {title}" for title, count in counts.items())
        return f"{said}. Conditions: {parts}"

    def left(self) -> str:
        """`about 3 min left`, by the time that the runs so far took; empty before the first."""
        made = sum(line == MADE for line in self._at.values())
        waiting = sum(not is_last(line) for line in self._at.values())
        if not made or not waiting:
            return ""
        seconds = (self._clock() - self._started_s) / made * waiting
        said = f"{seconds:.0f} s" if seconds < LONG_S else f"{seconds / 60:.0f} min"
        return f"about {said} left"

    def text(self) -> str:
        """`buffers ████████░░░░ 2 of 3 runs | about 4 s left | both: 4 s`, with as many runs as fit
        into a line; a line of a run that is too long ends at its colon."""
        ready = sum(is_last(line) for line in self._at.values())
        full = round(CELLS * ready / max(1, len(self._at)))
        under_way = [
            f"{name}: {line}" for name, line in self._at.items() if line and not is_last(line)
        ]
        bar = "█" * full + "░" * (CELLS - full)
        left = self.left()
        failed = sum(line.startswith(f"{FAILED}: ") for line in self._at.values())
        said = f"{self._lab} {bar} {ready} of {len(self._at)} runs"
        said += f" ({failed} failed)" if failed else ""
        shown = printable(" | ".join([said, *([left] if left else [])]))
        for one in map(printable, under_way):
            short = ":".join(one.split(":")[:2])
            fitting = [f"{shown} | {each}" for each in (one, short)]
            shown = next((each for each in fitting if len(each) <= LONGEST_LINE), shown)
        return shown

    def _say(self, line: str) -> None:
        """Print a line at once, even where the bar shows only the runs that are ready."""
        if not in_a_notebook():
            line = printable(line)
            sys.stderr.write(f"\r\033[K{line}\n" if sys.stderr.isatty() else f"{line}\n")
            sys.stderr.flush()

    def _show(self, ready: bool) -> None:
        text = self.text()
        if in_a_notebook():
            self._show_in_notebook(text)
        elif sys.stderr.isatty():
            sys.stderr.write(f"\r\033[K{text}")
            sys.stderr.flush()
        elif ready:
            sys.stderr.write(text + "\n")
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
