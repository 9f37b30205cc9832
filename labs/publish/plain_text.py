"""The words of HTML, without tags; neither styles nor scripts are words."""

from __future__ import annotations

import re
from html import unescape

TAG = re.compile(r"<[^>]+>")
NOT_TEXT = re.compile(r"<(script|style)\b[^>]*>.*?</\1\s*>", re.S | re.I)


def plain_text(html: str) -> str:
    """The words of HTML in one line."""
    return " ".join(unescape(TAG.sub(" ", NOT_TEXT.sub(" ", html))).split())
