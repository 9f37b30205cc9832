"""How texts and tables look in a notebook; anywhere else they are plain text and DataFrames."""

from __future__ import annotations

from html import escape

from pandas import DataFrame, option_context


class Text(str):
    """Lines to be copied: a notebook shows them as they are."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


class Words(str):
    """Markdown: a notebook shows it as prose."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_markdown_(self) -> str:
        return str(self)


class Table(DataFrame):
    """A small table of words: a notebook shows all of each cell, and no row numbers."""

    def _repr_html_(self) -> str:
        with option_context("display.max_colwidth", None):
            return self.to_html(index=False, border=0, na_rep="")
