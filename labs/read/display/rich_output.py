"""How texts and tables look in a notebook; anywhere else they are plain text and DataFrames."""

from __future__ import annotations

from html import escape
from numbers import Real

from pandas import DataFrame

from labs.read.display.format import LINES, notebook_cell, printable

LEFT = "text-align: left; white-space: normal; vertical-align: top"
RIGHT = "text-align: right; vertical-align: top"


class Text(str):
    """Printable lines to be copied: a notebook shows them as they are."""

    def __new__(cls, text: str) -> Text:
        return super().__new__(cls, printable(text, LINES))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


class Words(str):
    """Printable Markdown: a notebook shows it as prose."""

    def __new__(cls, text: str) -> Words:
        return super().__new__(cls, printable(text, LINES))

    def __repr__(self) -> str:
        return str(self)

    def _repr_markdown_(self) -> str:
        return str(self)


class Table(DataFrame):
    """A DataFrame that a notebook shows to be read: every cell whole, words to the left, numbers
    in four digits, nothing where there is nothing."""

    @property
    def _constructor(self) -> type[Table]:
        return Table

    def __repr__(self) -> str:
        return printable(super().__repr__(), LINES)

    def _repr_html_(self) -> str:
        numeric = {name: any(map(_is_number, self[name])) for name in self}
        heads = "".join(
            f'<th style="{RIGHT if right else LEFT}">{escape(printable(str(name)))}</th>'
            for name, right in numeric.items()
        )
        rows = "".join(
            f"<tr>{self._cells(row, list(numeric.values()))}</tr>"
            for row in self.itertuples(index=False, name=None)
        )
        return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"

    @staticmethod
    def _cells(row: tuple[object, ...], numeric: list[bool]) -> str:
        return "".join(
            f'<td style="{RIGHT if right else LEFT}">{escape(notebook_cell(value))}</td>'
            for value, right in zip(row, numeric, strict=True)
        )


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
