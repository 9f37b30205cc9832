"""A notebook that has run, as one HTML file that needs no network.

plotly.js stands in the page once, charts refer to it; styles and images are inside; nothing is
loaded from anywhere. The page has no date and no random name: the same notebook with the same
outputs gives the same bytes.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import plotly.io
from nbconvert import HTMLExporter
from nbconvert.preprocessors import CoalesceStreamsPreprocessor
from plotly.offline import get_plotlyjs
from pygments.formatters import HtmlFormatter
from traitlets.config import Config

FIGURE = "application/vnd.plotly.v1+json"
TEMPLATES = Path(__file__).parent / "template"
# An <h2> as nbconvert writes it: its address, its words, the paragraph mark that links to it.
HEADING = re.compile(r'<h2 id="([^"]+)">(.*?)<a class="anchor-link".*?</h2>', re.S)
CONTENTS_FROM = 3
# A table as pandas writes it.
ROW, CELL = re.compile(r"<tr.*?</tr>", re.S), re.compile(r"<(t[hd])([^>]*)>(.*?)</t[hd]>", re.S)
NUMBER = re.compile(r"[-+]?[\d.,]+(e[-+]?\d+)?%?|nan|inf|nat|none|&lt;na&gt;|-?", re.I)
# A page that works offline has no button that sends its chart to somebody's server.
CHART = {"displaylogo": False, "responsive": True, "showSendToCloud": False}


@dataclass(frozen=True)
class Section:
    """A second-level heading: the anchor in the page, and its words as HTML."""

    anchor: str
    words: str


def page(notebook: Any, fallback_title: str) -> str:
    """The HTML of an executed notebook (nbformat 4), charts interactive, without a network."""
    shown = copy.deepcopy(notebook)
    charts = embed_charts(shown)
    align_tables(shown)
    exporter = HTMLExporter(
        template_name="report",
        extra_template_basedirs=[str(TEMPLATES)],
        config=Config({"HTMLExporter": {"preprocessors": [CoalesceStreamsPreprocessor]}}),
    )
    body, _ = exporter.from_notebook_node(
        shown,
        resources={
            "title": title(shown) or fallback_title,
            "style": (TEMPLATES / "report" / "style.css").read_text(encoding="utf-8"),
            "highlight": _highlight(),
        },
    )
    # After the exporter, which would parse all of the library as HTML.
    return _with_contents(body).replace("<!-- plotly.js -->", _plotly_js() if charts else "", 1)


def embed_charts(notebook: Any) -> int:
    """Turn each plotly figure of the outputs into HTML that draws it; return how many."""
    count = 0
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            figure = output.get("data", {}).get(FIGURE)
            if figure is None:
                continue
            count += 1
            html = plotly.io.to_html(
                {"data": figure["data"], "layout": figure["layout"]},
                config=CHART,
                include_plotlyjs=False,
                full_html=False,
                validate=False,
                div_id=f"chart-{count}",
                default_height=f"{figure['layout'].get('height', 450)}px",
            )
            output["data"] = {"text/html": html}
    return count


def align_tables(notebook: Any) -> None:
    """Mark the cells of pandas tables whose column holds words, so that they stand at the left."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            html = output.get("data", {}).get("text/html", "")
            if 'class="dataframe"' in html and "span=" not in html:
                output["data"]["text/html"] = _aligned(html)


def _aligned(html: str) -> str:
    rows = [[found[2] for found in CELL.findall(row)] for row in ROW.findall(html)]
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


def title(notebook: Any) -> str:
    """The words of the first first-level heading, or nothing."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for line in cell.source.splitlines():
                if line.startswith("# "):
                    return str(line[2:]).strip()
    return ""


def _with_contents(html: str) -> str:
    """Put the list of sections, if there are several, after the title."""
    head, main, body = html.partition("<main>")
    sections = [Section(*found) for found in HEADING.findall(body)]
    if len(sections) < CONTENTS_FROM:
        return html
    links = "".join(f'<li><a href="#{it.anchor}">{it.words}</a></li>' for it in sections)
    return head + main + body.replace("</h1>", f"</h1>\n<nav><ol>{links}</ol></nav>", 1)


def _highlight() -> str:
    return str(HtmlFormatter(style="default").get_style_defs(".highlight"))


def _plotly_js() -> str:
    return f"<script>{get_plotlyjs()}</script>"
