"""What a tool printed, next to what an article prints."""

from __future__ import annotations

from collections.abc import Iterable

from labs.read.display.rich_output import Table

Printed = tuple[str, str, str]
"""A command, the article's output of it (empty: it prints none, or for other parameters) and this
run's."""


def printed_table(rows: Iterable[Printed]) -> Table:
    """One row per command; without the article's column if none of its output can be compared."""
    every = list(rows)
    commands, articles, ours = (
        (list(column) for column in zip(*every, strict=True)) if every else ([], [], [])
    )
    return Table(
        {"Command": commands, **({"Article": articles} if any(articles) else {}), "This run": ours}
    )
