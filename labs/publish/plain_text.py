"""The words of HTML, without tags; neither styles nor scripts are words."""

from __future__ import annotations

import re
from html import unescape

TAG = re.compile(r"<[^<>]+>")
NOT_TEXT = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style)(?=[\s/>])[^>]*(?:\Z|>.*?(?:\Z|</\1(?=[\s/>])[^>]*(?:>|\Z)))",
    re.S | re.I,
)
"""Comments, scripts and styles. One without an end extends to the end of the text, as in a browser,
so every character is read once: a search that gave up would begin again at the next beginning."""


def plain_text(html: str) -> str:
    """The words of HTML in one line."""
    return " ".join(unescape(TAG.sub(" ", NOT_TEXT.sub(" ", html))).split())
