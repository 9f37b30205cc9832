"""HTML of a notebook without anything that could run in a reader's browser.

bleach, which nbconvert needs anyway, parses it as a browser does and writes it again with the tags,
attributes and protocols that are allowed here. The page's policy (`html.py`) is a second barrier.
"""

from __future__ import annotations

import re
from functools import cache

from bleach.css_sanitizer import ALLOWED_CSS_PROPERTIES, ALLOWED_SVG_PROPERTIES, CSSSanitizer
from bleach.sanitizer import Cleaner

from labs.publish.plain_text import NOT_TEXT

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
    {"align", "alt", "class", "colspan", "dir", "height", "lang", "open", "role", "rowspan"}
    | {"scope", "span", "start", "title", "width"}
)
STYLES = frozenset(
    {"border", "border-bottom", "border-left", "border-right", "border-top", "margin", "padding"}
    | {"margin-left", "margin-right", "max-width", "min-width", "opacity", "padding-left"}
    | {"padding-right", "stroke-dasharray", "stroke-miterlimit"}
)
LINK = re.compile(r"https?:|mailto:|#|[\w./-]+(#|$)", re.I)
PLACE = re.compile("#")
LOADS = re.compile(r"url|[&@\\]", re.I)
"""A style that loads something, or whose spelling hides whether it does."""


def sanitised(html: str) -> str:
    """The HTML without scripts, handlers of events, other addresses than links, and style sheets.

    Only images that the HTML itself contains (`data:`) remain.
    """
    # The cleaner alone would show the content of these elements as text.
    return str(_cleaner().clean(NOT_TEXT.sub("", html)))


@cache
def _cleaner() -> Cleaner:
    properties = ALLOWED_CSS_PROPERTIES | STYLES
    return Cleaner(
        tags=TEXT | SVG,
        attributes=_allowed,
        protocols={"http", "https", "mailto", "data"},
        strip=True,
        css_sanitizer=CSSSanitizer(properties, ALLOWED_SVG_PROPERTIES),
    )


def _allowed(tag: str, name: str, value: str) -> bool:
    """Whether an element keeps an attribute, by its value as written; bleach then examines it."""
    if name == "href":
        return (LINK if tag == "a" else PLACE).match(value) is not None
    if name == "src":
        return tag == "img" and value.startswith("data:image/")
    if name == "style":
        return LOADS.search(value) is None
    if tag in SVG:
        return not name.lower().startswith("on")
    return name in ATTRIBUTES or name.startswith("aria-") or (name == "id" and tag in HEADINGS)
