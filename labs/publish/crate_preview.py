"""The page ro-crate-preview.html of a bundle: what it contains and how to verify it, for people.

The page has no script and loads nothing; every text is escaped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from labs.drive.record.seal import digest
from labs.errors import Damaged
from labs.publish.bundle_layout import COPY, PREVIEW
from labs.read.runs.run import Run

if TYPE_CHECKING:  # it loads papermill, which who checks a bundle need not have
    from labs.publish.bundled_notebook import Executed

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 0 auto; padding: 1rem; overflow-wrap: anywhere; }
table { border-collapse: collapse; display: block; overflow-x: auto; margin: 1rem 0; }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; vertical-align: top; }
th { border-bottom: 1px solid; }
td.number { text-align: right; }
code, pre { font: .9em ui-monospace, monospace; white-space: pre-wrap; }
"""
ALLOWED_TAGS = frozenset(
    (
        *("html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "a", "code", "pre"),
        *("table", "thead", "tbody", "tr", "th", "td"),
    )
)


def preview(
    name: str,
    files: Mapping[str, bytes],
    notebooks: Sequence[Executed],
    runs: Sequence[Run],
    verdicts: Mapping[str, Any],
) -> bytes:
    """The page of a bundle."""
    body = [
        f"<h1>{escape(name)}</h1>",
        "<p>Executed notebooks of the TCP lab notebook, and the runs that they are based on. A run "
        "in virtual time repeats to the byte, so anybody can check these figures:</p>",
        "<pre>labs verify BUNDLE.zip\nlabs runs list BUNDLE.zip</pre>",
        *_table("Notebooks", ("Notebook", "Parameters given"), _notebooks(notebooks)),
        *_table("Runs", ("Lab", "Testbed", "Linux", "Runs"), _runs(runs)),
        *_table("Verdicts", ("Article", "Claim", "Verdict", "Statement"), _verdicts(verdicts)),
        *_table("Files", ("File", "Bytes", "SHA-256"), _files(files)),
    ]
    head = (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(name)}</title>\n<style>{STYLE}</style></head>\n<body>\n"
    )
    return (head + "\n".join(body) + "\n</body></html>\n").encode()


def _table(title: str, columns: Sequence[str], rows: Iterator[Sequence[str]]) -> Iterator[str]:
    """A heading and a table of cells that are HTML already; nothing without rows."""
    found = list(rows)
    if not found:
        return
    yield f"<h2>{title}</h2>\n<table><thead><tr>"
    yield "".join(f'<th scope="col">{name}</th>' for name in columns)
    yield "</tr></thead><tbody>"
    for row in found:
        yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>"
    yield "</tbody></table>"


def _link(name: str) -> str:
    return f'<a href="{quote(name)}">{escape(name)}</a>'


def _notebooks(notebooks: Sequence[Executed]) -> Iterator[Sequence[str]]:
    for one in notebooks:
        given = " ".join(f"{name}={value!r}" for name, value in one.parameters.items())
        yield _link(f"notebooks/{one.name}"), escape(given or "its defaults")


def _runs(runs: Sequence[Run]) -> Iterator[Sequence[str]]:
    counted = Counter((run.lab, run.testbed, run.kernel.release) for run in runs)
    for (lab, testbed, release), count in sorted(counted.items()):
        yield escape(lab), escape(testbed), escape(release), str(count)


def _verdicts(verdicts: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    for article in verdicts["articles"]:
        for one in article["verdicts"]:
            factor = "" if one["factor"] is None else f" (factor {one['factor']:.2f})"
            words = (one["id"], f"{one['verdict']}{factor}", one["statement"])
            yield str(article["article"]), *map(escape, map(str, words))


def _files(files: Mapping[str, bytes]) -> Iterator[Sequence[str]]:
    for name, content in sorted(files.items()):
        yield _link(name), f"{len(content):,}", f"<code>{digest(content)}</code>"


class _Page(HTMLParser):
    """Collects what our own pages never contain: other elements, event handlers, addresses with a
    scheme."""

    def __init__(self) -> None:
        super().__init__()
        self.foreign: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ALLOWED_TAGS:
            self.foreign.append(f"<{tag}>")
        self.foreign += [name for name, value in attrs if _is_foreign(tag, name, value or "")]


def _is_foreign(tag: str, name: str, value: str) -> bool:
    """Whether our own pages never have this attribute: it acts, or leads out of the bundle."""
    if name == "href":
        return tag != "a" or ":" in value or value.strip().startswith(("/", "\\"))
    if name == "http-equiv":
        return value != "Content-Security-Policy"
    return name not in ("lang", "charset", "content", "name", "scope")


def check_preview(content: bytes) -> None:
    """Damaged for a page that could run a script or load something, which ours cannot."""
    page = _Page()
    text = content.decode("utf-8", "replace")
    page.feed(text)
    page.close()
    if page.foreign or f'content="{POLICY}"' not in text:
        what = page.foreign[0] if page.foreign else "no Content-Security-Policy"
        raise Damaged(f"{PREVIEW} of the bundle has {what[:40]!r}. Do not open it. {COPY}")
