"""HTML of notebooks on a page: nothing of it runs, and what our own notebooks show stays.

The attacks are those of OWASP's cheat sheet on the evasion of filters, and of bleach's advisories.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from html import escape
from html.parser import HTMLParser
from typing import Any

import pandas
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output, new_raw_cell
from plotly.graph_objects import Bar, Figure

import labs
from labs.publish.html import page
from labs.publish.output_html import NOT_TEXT, plain_text
from labs.publish.sanitised import DEEPEST, sanitised
from labs.read.display.rich_output import Table
from labs.read.notebook_file import FIGURE

ATTACKS = [
    "<script>attack()</script>",
    "<SCRIPT src=//x></SCRIPT >",
    "<scr<script>x</script>ipt>attack()</script>",
    "<img src=x onerror=attack()>",
    "<img src='data:text/html,x' onerror=attack()>",
    "<body onload=attack()>",
    "<svg onload=attack()><script>attack()</script></svg>",
    "<svg><animate onbegin=attack() attributeName=x /></svg>",
    "<svg><a xlink:href='javascript:attack()'><text>x</text></a></svg>",
    "<svg><use href='data:image/svg+xml,x'/></svg>",
    "<svg><foreignObject><iframe src='javascript:attack()'></foreignObject></svg>",
    "<svg></p><style><a title='</style><img src onerror=attack()>'>",
    "<math><mtext><table><mglyph><style><img src onerror=attack()></style></table></math>",
    "<noscript><p title='</noscript><img src=x onerror=attack()>'>",
    "<a href='javascript:attack()'>x</a>",
    "<a href=' java\tscript:attack()'>x</a>",
    "<a href='&#106;avascript:attack()'>x</a>",
    "<a href='\x01javascript:attack()'>x</a>",
    "<a href='&#100;ata:text/html,attack()'>x</a>",
    "<iframe srcdoc='<script>attack()</script>'></iframe>",
    "<object data='javascript:attack()'></object><embed src='javascript:attack()'>",
    "<form action='javascript:attack()'><input autofocus onfocus=attack()></form>",
    "<base href='//x'><link rel=stylesheet href='//x'>",
    "<meta http-equiv=refresh content='0;url=javascript:attack()'>",
    "<style>@import '//x';</style>",
    "<p style='background-image:url(//x)'>x</p>",
    "<p style='color:\\75rl(//x)'>x</p>",
    "<details open ontoggle=attack()><summary>x</summary></details>",
]
WORDS = re.compile("^(on.*|src|srcdoc|srcset|action|formaction|data|http-equiv|content)$")


class Seen(HTMLParser):
    """What could run in a piece of HTML, or load something."""

    def __init__(self) -> None:
        super().__init__()
        self.attacks: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "style", "iframe", "object", "embed", "base", "link", "meta", "form"):
            self.attacks.append(tag)
        for name, value in attrs:
            address = re.sub(r"[\x00-\x20]", "", value or "").lower()
            if WORDS.match(name) and not address.startswith("data:image/"):
                self.attacks.append(name)
            if address.startswith(("javascript:", "data:text")) or "url(" in address:
                self.attacks.append(address)


def seen(html: str) -> list[str]:
    parser = Seen()
    parser.feed(html)
    return parser.attacks


@pytest.mark.parametrize("attack", ATTACKS)
def test_sanitised_leaves_nothing_that_runs_or_loads(attack: str) -> None:
    assert seen(sanitised(attack)) == []


@pytest.mark.parametrize(
    "html",
    [
        Table({"condition": ["both"], "rtt_ms": [200.0]})._repr_html_(),
        Table({"rtt_ms": range(25)})._repr_html_(),
        '<h2 id="One">One<a class="anchor-link" href="#One">¶</a></h2>',
        '<p><a href="https://www.rfc-editor.org/rfc/rfc9293#name-x?a=b">a</a></p>',
        '<a href="01-buffers-and-bdp.ipynb">next</a>',
        '<img src="data:image/png;base64,AAAA" alt="x">',
    ],
)
def test_sanitised_keeps_what_notebooks_show(html: str) -> None:
    assert squeezed(sanitised(html)) == squeezed(html)


def squeezed(html: str) -> str:
    """HTML without the blanks and semicolons in styles that a writer may choose."""
    return re.sub(r";?\s*(?=[\"<;:])|(?<=[>:;])\s+", "", html)


def test_sanitised_keeps_a_drawing_and_a_table_of_pandas() -> None:
    drawing = labs.topology(rate_mbit=100, delay_ms=20)._repr_html_()
    kept = sanitised(drawing)
    tags = re.findall(r"<(\w+)", drawing)
    assert re.findall(r"<(\w+)", kept) == tags and tags.count("text") > 5
    assert "viewBox=" in kept and "max-width: 860px" in kept
    table = sanitised(pandas.DataFrame({"a": ["<b>"]})._repr_html_())  # type: ignore[operator]
    assert "<td>&lt;b&gt;</td>" in table and 'class="dataframe"' in table
    assert "vertical-align" not in table  # its style sheet, which would be shown as text


@pytest.mark.parametrize("name", ["steps", "plot js-plotly-plot", "&#115;teps", "text", "words"])
def test_sanitised_drops_classes_of_the_page_itself(name: str) -> None:
    for tag in ("div", "svg"):
        assert "class" not in sanitised(f"<{tag} class='{name}' data-names='[]'>x</{tag}>")


MIB = 1 << 20


@pytest.mark.parametrize(
    "unit",
    ["<script>", "<script ", "<script></style>", "<script></script", "<!--", "<style></STYLE" * 9],
)
def test_scripts_without_an_end_are_read_once(unit: str) -> None:
    """1 MiB of beginnings: to search for the end of each took 4.6 s of CPU time for 64 KiB, and so
    20 min for these. What has no end extends to the end of the text, so it is one match."""
    hostile = f"<p>kept</p>{unit * (MIB // len(unit))}"
    assert [match.end() for match in NOT_TEXT.finditer(hostile)][-1] == len(hostile)
    assert sanitised(hostile) == "<p>kept</p>"
    assert plain_text(hostile) == "kept"


@pytest.mark.parametrize("unit", ["<", "<a ", "< "])
def test_tags_without_an_end_are_read_once(unit: str) -> None:
    assert plain_text(f"<p>kept</p>{unit * (MIB // len(unit))}").startswith("kept <")


@pytest.mark.parametrize("unit", ["<ul><li>", "<div>", "<p><b>", "<svg><g>", "<div>x</div>"])
def test_more_elements_than_a_notebook_has_are_shown_as_text(unit: str) -> None:
    """Each would take from minutes to days: the parser's time grows with the square."""
    html = unit * 200_000
    assert sanitised(html) == f"<pre>{escape(html)}</pre>"


def test_nested_elements_and_long_tables_are_kept() -> None:
    assert sanitised("<ul><li>" * 100).count("<ul>") == 100
    assert sanitised("<td>1</td>" * 20_000).count("1") == 20_000
    assert sanitised("<div>" * (DEEPEST + 2)).startswith("<pre>")  # and the next one is read again
    assert sanitised("<p>after</p>") == "<p>after</p>"


def test_scripts_end_where_a_browser_ends_them() -> None:
    """HTML, 13.2.5.12 to 14: the end tag's name is followed by a blank, a slash or `>`."""
    html = (
        "a<script>1</scripty></script x>b<style>2</style/>c<scripty>d</scripty><!-- <script> -->e"
    )
    assert plain_text(html) == "a b c d e"
    assert sanitised(html) == "abcde"


def notebook(attack: str) -> Any:
    """A notebook with an attack at each place that is written into the page as HTML."""
    figure = Figure(Bar(y=[1], name=attack)).update_layout(title=attack)
    data = {
        "text/html": attack,
        "image/svg+xml": attack,
        "text/markdown": attack,
        "image/png": f'" {attack}',
        "image/jpeg": f'" onerror="attack()" {attack}',
        "text/plain": attack,
        FIGURE: json.loads(figure.to_json()),
    }
    outputs = [new_output("display_data", data={kind: content}) for kind, content in data.items()]
    outputs += [new_output("stream", text=attack), new_output("error", traceback=[attack])]
    return new_notebook(
        cells=[
            new_markdown_cell(f"# {attack}\n\n{attack}\n\n[x](javascript:attack())"),
            new_raw_cell(attack),
            new_raw_cell(attack, metadata={"raw_mimetype": "text/html"}),
            new_code_cell("1", outputs=outputs),
        ]
    )


@pytest.mark.parametrize("attack", [ATTACKS[0], ATTACKS[3], ATTACKS[14]])
def test_page_runs_its_own_scripts_alone(attack: str) -> None:
    html = page(notebook(attack), attack)
    head, body = html.split("<main>")
    scripts = [*re.findall(r"<script>(.*?)</script>", html, re.S)]
    data = re.findall(r'<script type="application/json">.*?</script>', body, re.S)
    assert (len(scripts), len(data)) == (2, 1)
    for script in (*data, f"<script>{scripts[-1]}</script>"):
        body = body.replace(script, "")
    assert seen(body) == []
    (policy,) = re.findall(r'<meta content="([^"]*)" http-equiv="Content-Security-Policy"', head)
    hashes = [b64encode(sha256(script.encode()).digest()).decode() for script in scripts]
    assert set(re.findall("'sha256-([^']*)'", policy)) == set(hashes)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy.replace("style-src 'unsafe-inline'", "")
