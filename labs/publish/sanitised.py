"""HTML of a notebook without anything that could run in a reader's browser.

bleach, which nbconvert needs anyway, parses it as a browser does and writes it again with the tags,
attributes and protocols that are allowed here. The page's policy (`html.py`) is a second barrier.
"""

from __future__ import annotations

import re
from functools import cache
from html import escape
from typing import Any

from bleach.css_sanitizer import ALLOWED_CSS_PROPERTIES, ALLOWED_SVG_PROPERTIES, CSSSanitizer
from bleach.sanitizer import Cleaner

from labs.publish.output_html import NOT_TEXT

TEXT = frozenset(
    {
        "a", "abbr", "b", "blockquote", "br", "caption", "cite", "code", "col", "colgroup", "dd",
        "del", "details", "div", "dl", "dt", "em", "figcaption", "figure", "h1", "h2", "h3", "h4",
        "h5", "h6", "hr", "i", "img", "ins", "kbd", "li", "mark", "ol", "p", "pre", "q", "s",
        "samp", "section", "small", "span", "strong", "sub", "summary", "sup", "table", "tbody",
        "td", "tfoot", "th", "thead", "tr", "u", "ul", "var",
    }
)  # fmt: skip
SVG = frozenset(
    {
        "circle", "clipPath", "defs", "desc", "ellipse", "g", "line", "linearGradient", "marker",
        "path", "polygon", "polyline", "radialGradient", "rect", "stop", "svg", "symbol", "text",
        "title", "tspan", "use",
    }
)  # fmt: skip
HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
ATTRIBUTES = frozenset(
    {"align", "alt", "colspan", "dir", "height", "lang", "open", "role", "rowspan"}
    | {"scope", "span", "start", "title", "width"}
)
STYLES = frozenset(
    {"border", "border-bottom", "border-left", "border-right", "border-top", "margin", "padding"}
    | {"margin-left", "margin-right", "max-width", "min-width", "opacity", "padding-left"}
    | {"padding-right", "stroke-dasharray", "stroke-miterlimit"}
)
CLASS = re.compile("anchor-link|dataframe|highlight|[a-z]{1,3}[0-9]?")
"""The classes of headings, pandas tables and code. The scripts and styles of the page could mistake
an element with any other class, such as `steps`, for a part of the page."""
LINK = re.compile(r"https?:|mailto:|#|[\w./-]+(#|$)", re.I)
PLACE = re.compile("#")
LOADS = re.compile(r"url|[&@\\]", re.I)
"""A style that loads something, or whose spelling hides whether it does."""

DEEPEST, MOST_ELEMENTS = 300, 30_000
"""How deep elements may be nested, and how many there may be. bleach takes time with the square of
either: some 400 kB of nested lists would take a quarter of an hour."""


def sanitised(html: str) -> str:
    """The HTML without scripts, handlers of events, other addresses than links, and style sheets.

    Only images that the HTML itself contains (`data:`) remain. HTML with more than MOST_ELEMENTS
    elements, or nested more than DEEPEST deep, is shown as text.
    """
    try:
        # The cleaner alone would show the content of these elements as text.
        return str(_cleaner().clean(NOT_TEXT.sub("", html)))
    except _TooLargeError:
        return f"<pre>{escape(html)}</pre>"


class _TooLargeError(Exception):
    """HTML has too many elements, or is nested too deeply."""


class _OpenElements(list[Any]):
    """The elements that a parser has not closed yet."""

    opened = 0

    def append(self, element: Any) -> None:
        self.opened += 1
        if len(self) > DEEPEST or self.opened > MOST_ELEMENTS:
            raise _TooLargeError
        super().append(element)


@cache
def _cleaner() -> Cleaner:
    properties = ALLOWED_CSS_PROPERTIES | STYLES
    cleaner = Cleaner(
        tags=TEXT | SVG,
        attributes=_allowed,
        protocols={"http", "https", "mailto", "data"},
        strip=True,
        css_sanitizer=CSSSanitizer(properties, ALLOWED_SVG_PROPERTIES),
    )
    tree = cleaner.parser.tree
    reset = tree.reset

    def bounded() -> None:
        reset()
        tree.openElements = _OpenElements()

    tree.reset = bounded
    return cleaner


def _allowed(tag: str, name: str, value: str) -> bool:
    """Whether an element keeps an attribute, by its value as written; bleach then examines it."""
    if name == "href":
        return (LINK if tag == "a" else PLACE).match(value) is not None
    if name == "src":
        return tag == "img" and value.startswith("data:image/")
    if name == "class":
        return CLASS.fullmatch(value) is not None
    if name == "style":
        return LOADS.search(value) is None
    if tag in SVG:
        return not name.lower().startswith("on")
    return name in ATTRIBUTES or name.startswith("aria-") or (name == "id" and tag in HEADINGS)
