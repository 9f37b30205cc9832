"""What a tool printed about a run, next to what an article prints of the same tool."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from labs.read.display.rich_output import Table
from labs.read.runs.run import Run


class Printed(NamedTuple):
    """A command, the article's output of it (empty if it prints none, or for other parameters), and
    that of a run."""

    command: str
    article: str
    run: str


def last_match(run: Run, file: str, pattern: str) -> str:
    """What the pattern matches last in a raw file of a run, in one line."""
    return " ".join(re.findall(pattern, run.text(file), re.MULTILINE)[-1].split())


def as_printed(lines: Iterable[Printed]) -> Table:
    """One row per command; without the article's column if none of its output can be compared."""
    rows = list(lines)
    articles_own = {"Article": [one.article for one in rows]}
    return Table(
        {
            "Command": [one.command for one in rows],
            **(articles_own if any(one.article for one in rows) else {}),
            "This run": [one.run for one in rows],
        }
    )
