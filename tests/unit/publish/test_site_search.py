"""The sections of a page, and the script that holds them."""

from __future__ import annotations

import json

from labs.publish.site_search import index_script, sections

PAGE = (
    '<head><title>x</title></head><main><h1 id="top">A page</h1><p>First &amp; words</p>'
    '<h2 id="two">Two<a class="anchor-link" href="#two">&#182;</a></h2>'
    '<details class="code"><pre>import x</pre></details><table><td>1</td></table>'
    '<script type="application/json">{"a": 1}</script><p>more</p></main>'
)


def test_sections_have_text_without_code_tables_and_data() -> None:
    assert sections("p.html", "A page", PAGE) == [
        ("p.html#top", "A page", "First & words"),
        ("p.html#two", "A page: Two", "more"),
    ]


def test_index_script_is_data() -> None:
    entries = [("a", "</script>", "\u2028\u00e4'\"")]
    script = index_script(entries)
    assert script.isascii() and script.startswith("const INDEX = ")
    assert json.loads(script.removeprefix("const INDEX = ").rstrip(";\n")) == [list(entries[0])]
