"""The page ro-crate-preview.html of a bundle: what it contains and how to verify it, for people.

The page has no script and loads nothing; every text is escaped. It is generated from the other
files of the bundle. The page of an untrusted bundle is therefore not parsed, but generated again
and compared: no parser agrees with every browser about the scripts that a page would run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from labs.drive.record.seal import digest
from labs.publish.crate import METADATA, NOTEBOOKS, PREVIEW, SUMS
from labs.read.notebook_file import given_parameters, title
from labs.read.runs.run import Run

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
Notebooks = Mapping[str, Mapping[str, Any]]
"""The content of each notebook of a bundle, by the name of its file."""
NOT_LISTED = frozenset((METADATA, PREVIEW, SUMS))
"""The page itself, and the files that contain its name or its checksum."""


def name_of(notebooks: Notebooks, runs: Sequence[Run]) -> str:
    """The name of a bundle: the titles of its notebooks, or the labs of its runs."""
    titles = (title(book["cells"]) or Path(name).stem for name, book in sorted(notebooks.items()))
    return "; ".join(titles) or f"Runs of {', '.join(sorted({run.lab for run in runs}))}"


def preview(
    files: Mapping[str, Path | bytes],
    notebooks: Notebooks,
    runs: Sequence[Run],
    verdicts: Mapping[str, Any],
) -> bytes:
    """The page of a bundle with these files, notebooks and verdicts as read from them."""
    name = name_of(notebooks, runs)
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
    every = list(rows)
    if not every:
        return
    yield f"<h2>{title}</h2>\n<table><thead><tr>"
    yield "".join(f'<th scope="col">{name}</th>' for name in columns)
    yield "</tr></thead><tbody>"
    for row in every:
        yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>"
    yield "</tbody></table>"


def _link(name: str) -> str:
    return f'<a href="{quote(name)}">{escape(name)}</a>'


def _notebooks(notebooks: Notebooks) -> Iterator[Sequence[str]]:
    for name, book in sorted(notebooks.items()):
        values = given_parameters(book).items()
        given = " ".join(f"{parameter}={value!r}" for parameter, value in values)
        yield _link(f"{NOTEBOOKS}/{name}"), escape(given or "its defaults")


def _runs(runs: Sequence[Run]) -> Iterator[Sequence[str]]:
    counted = Counter((run.lab, run.testbed, run.kernel.release) for run in runs)
    for (lab, testbed, release), count in sorted(counted.items()):
        yield escape(lab), escape(testbed), escape(release), str(count)


def _verdicts(verdicts: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    for article in verdicts["articles"]:
        for judged in article["verdicts"]:
            factor = "" if judged["factor"] is None else f" (factor {judged['factor']:.2f})"
            verdict = f"{judged['verdict']}{factor}"
            words = (article["article"], judged["id"], verdict, judged["statement"])
            yield tuple(map(escape, map(str, words)))


def _files(files: Mapping[str, Path | bytes]) -> Iterator[Sequence[str]]:
    for name, content in sorted(files.items()):
        size = content.stat().st_size if isinstance(content, Path) else len(content)
        yield _link(name), f"{size:,}", f"<code>{digest(content)}</code>"
