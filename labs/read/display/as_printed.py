"""What a tool printed about a run, next to what an article prints of the same tool."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from labs.read.display.rich_output import Table
from labs.read.runs.run import Run


@dataclass(frozen=True)
class Printed:
    """A line of a tool: the command, the raw file of the run that has its output, the pattern of
    which the last match is shown, and the article's line; empty if the run has other parameters
    than the article."""

    command: str
    run: Run
    file: str
    pattern: str
    article: str = ""


def as_printed(lines: Iterable[Printed]) -> Table:
    """One row per line; without a column of the article if it has none of them."""
    rows = list(lines)
    found = [re.findall(one.pattern, one.run.text(one.file), re.MULTILINE)[-1] for one in rows]
    articles_own = {"Article": [one.article for one in rows]}
    return Table(
        {
            "Command": [one.command for one in rows],
            **(articles_own if any(one.article for one in rows) else {}),
            "This run": [" ".join(line.split()) for line in found],
        }
    )
