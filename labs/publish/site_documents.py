"""The project's Markdown pages as pages of a site, with links among them and to notebooks and data.

Links to files that the site does not have become text.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from html import escape, unescape
from pathlib import Path, PurePosixPath
from posixpath import normpath

from nbconvert.filters.markdown import markdown2html

from labs.publish.output_html import TAG, plain_text
from labs.publish.sanitised import sanitised
from labs.publish.site_page import Place

TITLED = re.compile(r'<h([1-6]) id="[^"]*">(.*?)<a class="anchor-link".*?</h\1>', re.S)
LINK = re.compile(r'<a href="([^"]*)">(.*?)</a>', re.S)
IMAGE = re.compile(r'<img src="([^":]*)"')
NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")
OUTSIDE = ("http://", "https://", "mailto:", "#")
IMAGES = {".png": "image/png", ".svg": "image/svg+xml"}


def document_pages(root: Path) -> dict[str, str]:
    """The address in the site of each Markdown file, by its path in the project."""
    top = {"README.md": "docs/readme.html", "CONTRIBUTING.md": "docs/contributing.html"}
    top |= {"CHANGELOG.md": "docs/changelog.html", "data/DATASETS.md": "data.html"}
    addresses = {name: address for name, address in top.items() if (root / name).is_file()}
    return addresses | {
        f"docs/{path.name}": f"docs/{path.stem}.html" for path in sorted(root.glob("docs/*.md"))
    }


def document(root: Path, name: str, place: Place, addresses: Mapping[str, str]) -> tuple[str, str]:
    """The title of a Markdown file, and its body as HTML. `addresses` are those in the site of
    files of the project."""
    html = sanitised(_with_images(markdown2html((root / name).read_text("utf-8")), root, name))
    anchored = TITLED.sub(_heading, html)
    linked = LINK.sub(lambda it: _link(it[1], it[2], name, place, addresses), anchored)
    titled = TITLED.search(html)
    title = plain_text(titled[2]) if titled else name
    return title, f'<section class="text document">{linked}</section>'


def _heading(match: re.Match[str]) -> str:
    """A heading with the anchor that the project's links use: lower case, hyphens for spaces."""
    words = NOT_IN_ANCHORS.sub("", unescape(TAG.sub("", match[2])).lower()).replace(" ", "-")
    return f'<h{match[1]} id="{escape(words)}">{match[2]}</h{match[1]}>'


def _link(href: str, words: str, name: str, place: Place, addresses: Mapping[str, str]) -> str:
    if href.startswith(OUTSIDE):
        return f'<a href="{href}">{words}</a>'
    path, _, anchor = href.partition("#")
    target = addresses.get(_resolved(name, path))
    if target is None:
        return words
    return f'<a href="{place.root}{target}{f"#{anchor}" if anchor else ""}">{words}</a>'


def _resolved(name: str, path: str) -> str:
    return normpath(str(PurePosixPath(name).parent / unescape(path)))


def _with_images(html: str, root: Path, name: str) -> str:
    """The HTML with pictures of the project in it, as data."""

    def embedded(match: re.Match[str]) -> str:
        path = root / _resolved(name, match[1])
        kind = IMAGES.get(path.suffix)
        if kind is None or not path.is_file() or not path.resolve().is_relative_to(root.resolve()):
            return match[0]
        return f'<img src="data:{kind};base64,{b64encode(path.read_bytes()).decode()}"'

    return IMAGE.sub(embedded, html)
