"""The frame that all pages of a site share: head, policy, navigation. Styles are in one file.

Addresses are relative, so that the site works from any folder, without a server.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from labs.publish.html import TEMPLATES, document, highlight_styles, style_of

STYLE = "style.css"
NAVIGATION = (
    ("index.html", "Claims"),
    ("notebooks.html", "Notebooks"),
    ("notebooks/06-kernels-compared.html", "Kernels"),
    ("docs/model.html", "Model"),
    ("docs.html", "Docs"),
    ("data.html", "Data"),
    ("docs/publishing.html#verify", "Verify"),
)
"""The pages that every page links to."""


@dataclass(frozen=True)
class Place:
    """The address of a page in a site, such as `docs/model.html`, and which pages the site has."""

    address: str
    pages: frozenset[str]

    @property
    def root(self) -> str:
        """The relative path from the page to the folder of the site."""
        return "../" * self.address.count("/")

    def navigation(self) -> str:
        here = ' aria-current="page"'
        links = "".join(
            f'<a href="{self.root}{address}"{here if page == self.address else ""}>'
            f"{escape(name)}</a>"
            for address, name in NAVIGATION
            if (page := address.partition("#")[0]) in self.pages
        )
        return f'<nav class="site" aria-label="Site"><b>TCP lab</b>{links}</nav>'


def framed(place: Place, title: str, body: str, script: str = "") -> str:
    """A page of the site with its body and a script of its own."""
    sheet = place.root + STYLE
    return document(title, body, script, sheet=sheet, navigation=place.navigation())


def style_sheet() -> str:
    """The one style sheet of a site."""
    return f"{style_of('report/style.css', 'site/site.css')}\n{highlight_styles()}"


def script(name: str) -> str:
    """A script of the site's own."""
    return (TEMPLATES / "site" / name).read_text(encoding="utf-8")
