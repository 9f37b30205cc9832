"""How texts and tables look in a notebook; anywhere else they are plain text and DataFrames."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape
from numbers import Real
from typing import Any, Self

from pandas import DataFrame

from labs.read.display.format import LINES, heading, notebook_cell, printable

LEFT = "text-align: left; white-space: normal; vertical-align: top"
RIGHT = "text-align: right; vertical-align: top"
DIGITS = re.compile(r"[-+]?[\d,.]*\d")
MOST_ROWS = 20
"""Of a longer table the other rows are folded."""
DARK_THEME = (
    '<style>[data-jp-theme-light="false"] :is(.js-plotly-plot, .jp-RenderedHTML svg[role="img"])'
    " { filter: invert(0.93) hue-rotate(180deg); }</style>"
)
"""Charts in JupyterLab's dark theme: light and dark change places; hues remain. A figure is JSON
with colours for white paper, and its renderer knows no theme."""


def follow_theme() -> None:
    """Add the rule of style to the output of the cell that is running, if there is one."""
    from IPython.core.getipython import get_ipython  # noqa: PLC0415  only in a notebook
    from IPython.display import display  # noqa: PLC0415

    if get_ipython() is not None:
        display({"text/html": DARK_THEME, "text/plain": ""}, raw=True)  # type: ignore[no-untyped-call]


class _Lines(str):
    def __new__(cls, text: str) -> Self:
        return super().__new__(cls, printable(text, LINES))

    def __repr__(self) -> str:
        return str(self)


class Text(_Lines):
    """Printable lines to be copied: a notebook shows them as they are."""

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"


class Words(_Lines):
    """Printable Markdown: a notebook shows it as prose."""

    def _repr_markdown_(self) -> str:
        return str(self)


class Summary:
    """A value of which a notebook shows a line: the name of its class and `summary()`."""

    def summary(self) -> str:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.summary()}>"

    def _repr_html_(self) -> str:
        return f"<p>{type(self).__name__} {escape(self.summary())}</p>"


class Folded(str):
    """A text whose details are folded behind it in a notebook; anywhere else the text alone.

    `more` has the details in lines. A table keeps them in a column of type object.
    """

    more: tuple[str, ...]

    def __new__(cls, text: str, more: Iterable[str]) -> Folded:
        made = super().__new__(cls, printable(text))
        made.more = tuple(map(printable, more))
        return made

    def _repr_html_(self) -> str:
        lines = "".join(f"<p>{escape(line)}</p>" for line in self.more if line != self)
        details = f"<details><summary>evidence</summary>{lines}</details>" if lines else ""
        return escape(self) + details


class Table(DataFrame):
    """A DataFrame that a notebook shows in full, with headings and cells for people.

    Words are left-aligned, numbers have four digits, and missing values are empty. The heading of
    `goodput_mib_s` is "Goodput (MiB/s)"; its tooltip is the name of the column. `attrs["units"]`
    has the units of columns whose names have none. Of a long table the first 20 rows are shown, and
    the others are folded.
    """

    @property
    def _constructor(self) -> type[Table]:
        return Table

    def __repr__(self) -> str:
        return printable(super().__repr__(), LINES)

    def _repr_html_(self) -> str:
        numeric = {name: any(map(_is_number, self[name])) for name in self}
        html = _html(self.iloc[:MOST_ROWS], numeric)
        if len(self) <= MOST_ROWS:
            return html
        summary = f"{len(self) - MOST_ROWS} more of {len(self)} rows"
        rest = _html(self.iloc[MOST_ROWS:], numeric)
        return f"{html}<details><summary>{summary}</summary>{rest}</details>"


def _html(table: DataFrame, numeric: Mapping[Any, bool]) -> str:
    """A table, in which the columns with a number are right-aligned."""
    units, styles = table.attrs.get("units", {}), [RIGHT if it else LEFT for it in numeric.values()]
    heads = "".join(
        f'<th scope="col" style="{style}" title="{escape(printable(str(name)))}">'
        f"{escape(printable(heading(str(name), units.get(name, ''))))}</th>"
        for name, style in zip(numeric, styles, strict=True)
    )
    cells = [
        [
            f'<td style="{style}">{_cell(value)}</td>'
            for value, style in zip(row, styles, strict=True)
        ]
        for row in table.itertuples(index=False, name=None)
    ]
    rows = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"


def _cell(value: object) -> str:
    return value._repr_html_() if isinstance(value, Folded) else escape(notebook_cell(value))


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        return DIGITS.fullmatch(value) is not None
    return isinstance(value, Real) and not isinstance(value, bool)
