"""Rows as an aligned table of a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labs.read.display.format import terminal_cell


def table(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> str:
    """The columns of the rows, heads first; numbers to the right with three decimals at most."""
    cells = [[terminal_cell(row.get(column)) for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    numeric = [
        all(isinstance(row.get(column), int | float | None) for row in rows) for column in columns
    ]

    def line(words: Sequence[str]) -> str:
        return "  ".join(
            word.rjust(width) if right else word.ljust(width)
            for word, width, right in zip(words, widths, numeric, strict=True)
        ).rstrip()

    return "\n".join(map(line, [columns, *cells]))
