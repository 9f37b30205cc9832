"""The lines with which the launcher reports a run, besides those that the run itself prints."""

from __future__ import annotations

WAITING = "waiting"
"""The first word of every line that says what a run waits for."""
MADE, EXISTS = "made", "there already"
"""The last line of a run that was performed, or that existed."""
FAILED = "failed"
"""The first word of the last line of a run that failed while others continue."""


def is_last(line: str) -> bool:
    """Whether no further line about the run follows."""
    return line in (MADE, EXISTS) or line.startswith(f"{FAILED}: ")
