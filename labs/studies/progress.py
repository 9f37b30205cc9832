"""Progress of a study while its runs are performed: one line, in a notebook or on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from html import escape
from typing import Any

from labs.launch.locks import WAITING
from labs.read.display.format import printable

READY = ("made", "there already")
CELLS = 24
LONGEST_LINE = 100


class Bar:
    """A progress bar for the runs of a study; nothing is shown if all of them exist already."""

    def __init__(self, lab: str, conditions: Sequence[str]) -> None:
        self._lab = lab
        self._at = dict.fromkeys(conditions, "")
        self._shown = False
        self._display: Any = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown and self._display is None and sys.stderr.isatty():
            sys.stderr.write("\n")

    def tell(self, condition: str, line: str) -> None:
        """Receive a progress line of one run from `labs.launch.launch.run`."""
        self._at[condition] = line
        if line.startswith(WAITING):
            self._say(f"{self._lab} {condition}: {line}")
        if self._shown or line != "there already":
            self._show(line in READY)

    def text(self) -> str:
        """`buffers ████████░░░░ 2 of 3 runs | both: 4 s`."""
        ready = sum(line in READY for line in self._at.values())
        full = round(CELLS * ready / max(1, len(self._at)))
        under_way = [
            f"{name}: {line}" for name, line in self._at.items() if line and line not in READY
        ]
        bar = "█" * full + "░" * (CELLS - full)
        parts = [f"{self._lab} {bar} {ready} of {len(self._at)} runs", *under_way]
        return printable(" | ".join(parts))[:LONGEST_LINE]

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
            sys.stderr.write(f"\r\033[K{text[:LONGEST_LINE]}")
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
