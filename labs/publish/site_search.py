"""The search of a site: every section of its pages with its text, as a script file.

A page opened from a file may load scripts, and no other data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from labs.publish.plain_text import plain_text

HEADING = re.compile(r'<h[1-3] id="([^"]+)"[^>]*>(.*?)</h[1-3]>', re.S)
LEFT_OUT = re.compile(
    r'<script.*?</script>|<details class="(?:code|numbers)".*?</details>'
    r"|<svg.*?</svg>|<nav.*?</nav>|<table.*?</table>|&#182;|¶",
    re.S,
)
MOST_CHARACTERS = 1500
"""Of the text of a section."""
Entry = tuple[str, str, str]
"""Address, title and text."""

BODY = (
    '<h1>Search</h1><section class="text"><p>Every claim, notebook and document of this site.</p>'
    '</section><input id="words" type="search" aria-label="Words to search for">'
    '<p id="count" aria-live="polite"></p><ol id="found"></ol>'
)


def sections(address: str, page_title: str, html: str) -> list[Entry]:
    """The sections of a page, each with the title of the page in front of its own."""
    main = LEFT_OUT.sub(" ", html.partition("<main>")[2])
    parts = HEADING.split(main)
    entries = []
    for anchor, words, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        heading = plain_text(words)
        title = heading if heading == page_title else f"{page_title}: {heading}"
        entries.append((f"{address}#{anchor}", title, plain_text(text)[:MOST_CHARACTERS]))
    return entries


def index_script(entries: Iterable[Entry]) -> str:
    """The script file that holds all sections."""
    return f"const INDEX = {json.dumps(list(entries), separators=(',', ':'))};\n"
