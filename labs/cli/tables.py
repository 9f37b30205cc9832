"""Rows as an aligned table of a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def table(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> str:
    """The columns of the rows, heads first; numbers to the right with three decimals at most."""
    cells = [[shown(row.get(column)) for column in columns] for row in rows]
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


def shown(value: object) -> str:
    if value is None or value != value:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    if isinstance(value, list | tuple):
        return "; ".join(map(str, value))
    return str(value)
