"""An executed notebook as one HTML file that needs no network.

The page contains plotly.js once, all styles and all images; nothing is loaded from elsewhere. In a
site, plotly.js and the styles are files that all of its pages share (`Shared`). A page has no
date and no random name: the same notebook with the same outputs gives the same bytes.
"""

from __future__ import annotations

import copy
import re
from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import InvalidNotebook
from nbconvert.preprocessors import CoalesceStreamsPreprocessor
from plotly.offline import get_plotlyjs
from pygments.formatters import HtmlFormatter
from traitlets.config import Config

from labs.errors import RunFailed
from labs.publish.figures import figure_html
from labs.publish.output_html import complete_tables
from labs.publish.sanitised import sanitised
from labs.read.notebook_file import FIGURE, title
from labs.read.runs.raw_files import UNEXPECTED

TEMPLATES, FRAME = Path(__file__).parent / "template", "frame.html.j2"
# An <h2> as nbconvert writes it: its address, its words, the paragraph mark that links to it.
HEADING = re.compile(r'<h2 id="([^"]+)">(.*?)<a class="anchor-link".*?</h2>', re.S)
CONTENTS_FROM = 3
LIBRARY = "<!-- plotly.js -->"
"""Where a page of a notebook has the library."""


@dataclass(frozen=True)
class Shared:
    """What a page takes from its site: the addresses of style sheet and plotly.js, the links to
    other pages as HTML."""

    style: str
    library: str
    navigation: str


def page(notebook: Any, fallback_title: str, shared: Shared | None = None) -> str:
    """The HTML of an executed notebook (nbformat 4), charts interactive, without a network; with
    `shared` as a page of a site. RunFailed for an output that cannot be shown."""
    shown = copy.deepcopy(notebook)
    sanitise_outputs(shown)
    complete_tables(shown)
    charts = embed_charts(shown)
    library = get_plotlyjs() if charts and shared is None else ""
    script = (TEMPLATES / "report" / "charts.js").read_text(encoding="utf-8")
    resources = {
        "title": title(shown.cells) or fallback_title,
        "policy": policy(
            script, library, files=charts > 0 and shared is not None, styles=shared is not None
        ),
        "sheet": shared.style if shared is not None else "",
        "navigation": shared.navigation if shared is not None else "",
        "library": shared.library if charts and shared is not None else "",
        "style": f"{style_of('report/style.css')}\n{highlight_styles()}",
        "script": script,
    }
    try:
        body, _ = _renderer().from_notebook_node(shown, resources=resources)
    except (InvalidNotebook, *UNEXPECTED) as error:
        lines = str(error).splitlines() or [""]
        raise RunFailed(
            f"the notebook cannot be shown as a page ({type(error).__name__}: {lines[0][:160]}). "
            "Correct the cell, or attach the file that it shows"
        ) from error
    # After the exporter, which would parse all of the library as HTML.
    scripts = f"<script>{library}</script>" if library else ""
    return _with_contents(body).replace(LIBRARY, scripts, 1)


def document(title: str, body: str, script: str = "", **frame: str) -> str:
    """A page with this body and a script of its own, in the frame that all pages have: with the
    rules `style` or the address of a style sheet (`sheet`), and perhaps `navigation` and the name
    of its `generator`."""
    allowed = policy(script, styles="sheet" in frame)
    resources = {"title": title, "policy": allowed, **frame}
    head = _renderer().environment.get_template(FRAME).render(resources=resources)
    head = head.replace(f"{LIBRARY}\n", "")
    inline = f"<script>{script}</script>\n" if script else ""
    return f"{head}\n{body}\n</main>\n{inline}</body>\n</html>\n"


def _renderer() -> HTMLExporter:
    return HTMLExporter(
        template_name="report",
        extra_template_basedirs=[str(TEMPLATES)],
        config=Config({"HTMLExporter": {"preprocessors": [CoalesceStreamsPreprocessor]}}),
        filters={"sanitised": sanitised},
    )


def check_texts(notebook: Any) -> None:
    """RunFailed if a text cell cannot be shown, for example because an attachment is missing; to be
    called before anything is executed."""
    texts = copy.copy(notebook)
    texts.cells = [cell for cell in notebook.cells if cell.cell_type != "code"]
    page(texts, "")


def policy(*scripts: str, files: bool = False, styles: bool = False) -> str:
    """The Content-Security-Policy of a page with these scripts: nothing is loaded, and no other
    script runs. A page of a site may also load script files (`files`), and styles and images."""
    digests = [sha256(script.encode()).digest() for script in scripts if script]
    sources = " ".join(f"'sha256-{b64encode(digest).decode()}'" for digest in digests)
    sources = " ".join(filter(None, (sources, "'self'" if files else ""))) or "'none'"
    site = " 'self'" if styles else ""
    return (
        f"default-src 'none'; script-src {sources}; style-src 'unsafe-inline'{site}; "
        f"img-src data: blob:{site}; "
        "base-uri 'none'; form-action 'none'"
    )


def sanitise_outputs(notebook: Any) -> None:
    """Remove what could run from the HTML and the SVG images in the outputs."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            for kind in ("text/html", "image/svg+xml"):
                if kind in data:
                    data[kind] = sanitised(data[kind])


def embed_charts(notebook: Any) -> int:
    """Turn each plotly figure of the outputs into HTML that draws it; return how many.

    RunFailed for an output that is not a plotly figure.
    """
    count = 0
    for number, cell in enumerate(notebook.cells, 1):
        for output in cell.get("outputs", []):
            figure = output.get("data", {}).get(FIGURE)
            if figure is not None:
                count += 1
                try:
                    html = figure_html(figure, count)
                except UNEXPECTED as error:
                    raise RunFailed(
                        f"cell {number} of the notebook shows a figure that cannot be drawn "
                        f"({type(error).__name__}). Show a plotly figure"
                    ) from error
                output["data"] = {"text/html": html}
    return count


def _with_contents(html: str) -> str:
    """Put the list of sections, if there are several, after the title."""
    head, main, body = html.partition("<main>")
    sections = HEADING.findall(body)
    if len(sections) < CONTENTS_FROM:
        return html
    links = "".join(f'<li><a href="#{anchor}">{words}</a></li>' for anchor, words in sections)
    return head + main + body.replace("</h1>", f"</h1>\n<nav><ol>{links}</ol></nav>", 1)


def style_of(*names: str) -> str:
    """The style sheets with these names as one."""
    return "\n".join((TEMPLATES / name).read_text(encoding="utf-8") for name in names)


def highlight_styles() -> str:
    """Colours of code: for a light page, and for a dark one on a screen."""
    light, dark = (
        str(HtmlFormatter(style=name).get_style_defs(".highlight"))
        for name in ("default", "github-dark")
    )
    return f"{light}\n@media screen and (prefers-color-scheme: dark) {{\n{dark}\n}}"
