"""The HTML of outputs: its words without tags, styles and scripts; and tables with captions, scopes
of their headings, and words aligned left."""

from __future__ import annotations

import re
from html import escape, unescape
from typing import Any

TAG = re.compile(r"<[^<>]+>")
NOT_TEXT = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style)(?=[\s/>])[^>]*(?:\Z|>.*?(?:\Z|</\1(?=[\s/>])[^>]*(?:>|\Z)))",
    re.S | re.I,
)
"""Comments, scripts and styles. One without an end extends to the end of the text, as in a browser,
so every character is read once: a search that gave up would begin again at the next beginning."""
# A table as pandas writes it, and as labs/read/display/rich_output.py does.
TABLE = re.compile(r"<table([^>]*)>(?!<caption)")
ROW, CELL = re.compile(r"<tr.*?</tr>", re.S), re.compile(r"<(t[hd])([^>]*)>(.*?)</t[hd]>", re.S)
HEAD_CELL = re.compile(r"<th(?![^>]*scope=)(?=[\s>])")
NUMBER = re.compile(r"[-+]?[\d.,]+(e[-+]?\d+)?%?|nan|inf|nat|none|&lt;na&gt;|-?", re.I)
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)


def plain_text(html: str) -> str:
    """The words of HTML in one line."""
    return " ".join(unescape(TAG.sub(" ", NOT_TEXT.sub(" ", html))).split())


def complete_tables(notebook: Any) -> None:
    """Give each table of the outputs a caption (the heading above it) and scopes; in tables of
    pandas, columns of words are marked, so that they are left-aligned."""
    above = ""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            above = (HEADING.findall(cell.source) or [above])[-1]
        for output in cell.get("outputs", []):
            html = output.get("data", {}).get("text/html", "")
            if "<table" in html:
                if 'class="dataframe"' in html and "span=" not in html:
                    html = _aligned(html)
                output["data"]["text/html"] = _described(html, above)


def _described(html: str, caption: str) -> str:
    words = escape(re.sub(r"[*`]", "", caption))
    html = TABLE.sub(
        lambda match: f"<table{match[1]}>" + (f"<caption>{words}</caption>" if words else ""), html
    )
    head, thead, body = html.partition("</thead>")
    return HEAD_CELL.sub('<th scope="col"', head) + thead + HEAD_CELL.sub('<th scope="row"', body)


def _aligned(html: str) -> str:
    rows = [[cell[2] for cell in CELL.findall(row)] for row in ROW.findall(html)]
    wordy = [
        any(NUMBER.fullmatch(text.strip()) is None for text in column)
        for column in zip(*rows[1:], strict=False)
    ]

    def mark(row: re.Match[str]) -> str:
        columns = iter(wordy)
        return CELL.sub(
            lambda it: (
                f'<{it[1]} class="words"{it[2]}>{it[3]}</{it[1]}>'
                if next(columns, False)
                else it[0]
            ),
            row[0],
        )

    return ROW.sub(mark, html)
