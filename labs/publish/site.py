"""One static site: the claims, the executed notebooks, the documents, the data.

It works from a file:// address without a network, and the same input gives the same bytes.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from plotly.offline import get_plotlyjs

from labs.drive import testbeds
from labs.drive.record.disk import owned_folder, written_to
from labs.errors import BadInput, LabError, Missing
from labs.publish import claims_page
from labs.publish.claim_charts import best_charts, charts_of
from labs.publish.claims_page import Judged, Links
from labs.publish.execute import execute, open_notebook, side_by_side
from labs.publish.html import TEMPLATES, Shared, page
from labs.publish.page_parameters import Scalar, checked_lab, declared
from labs.publish.site_documents import document, document_pages
from labs.publish.site_page import STYLE, Place, framed, script, style_sheet
from labs.read.claims.composition import noted_once, telling_first
from labs.read.claims.ledger import read
from labs.read.claims.sources import recorded_sources, verdicts_from
from labs.read.lab import Lab
from labs.read.notebook_file import NotebookFile, read_notebook, title
from labs.read.runs import recorded

UNFINISHED = ".new-site-"
PLOTLY = "plotly.js"
NOTEBOOK_LINK = re.compile(r'href="([\w-]+)\.ipynb(#|")')
RECORDED: Mapping[str, Scalar] = {"TESTBED": testbeds.RECORDED.name}


@dataclass(frozen=True)
class Sources:
    """What a site is made of: the folder of the project, its notebooks, the recorded data."""

    root: Path
    notebooks: tuple[NotebookFile, ...]
    data: Path

    @property
    def addresses(self) -> dict[str, str]:
        """The address in the site of each file of the project that is in it."""
        return {
            **document_pages(self.root),
            **{
                f"notebooks/{notebook.path.name}": _address(notebook) for notebook in self.notebooks
            },
            **{f"data/{name}": f"data/{name}" for name in self.files},
            "notebooks": "notebooks.html",
            "docs": "docs.html",
            "data": "data.html",
        }

    @property
    def files(self) -> tuple[str, ...]:
        """The files of recorded data that can be downloaded."""
        return (*sorted(recorded.checksums(self.data)), recorded.SUMS)

    @property
    def pages(self) -> frozenset[str]:
        made = ("index.html", "notebooks.html", "docs.html", "data.html")
        return frozenset(
            (*made, *(address for address in self.addresses.values() if address.endswith("html")))
        )


def sources() -> Sources:
    """The sources of the site. Missing if this installation has no notebooks and documents."""
    root = TEMPLATES.parents[2]
    paths = sorted(root.glob("notebooks/*.ipynb"))
    if not paths or not (root / "docs").is_dir():
        raise Missing(
            f"there are no notebooks and documents in {root}. Run the command in a clone of the "
            "project"
        )
    return Sources(root, tuple(map(read_notebook, paths)), recorded.folder())


def judged(lab: Lab) -> Judged:
    """The verdicts of the recorded runs on the claims of a lab's article. BadInput without any."""
    if lab.ledger is None:
        raise BadInput(f"the lab {lab.name} has no claims to judge")
    article = read(lab.ledger)
    verdicts = telling_first(
        article, verdicts_from(lab, recorded_sources(lab, testbeds.RECORDED.name))
    )
    return Judged(lab, article, noted_once(verdicts, set()))


def check_out(out: Path) -> None:
    """BadInput unless a site can be written to a folder: a new or an empty one."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadInput(f"{out} exists and is not empty. Name a new folder")


def write_site(
    out: Path,
    made_of: Sources,
    judged: Sequence[Judged],
    *,
    jobs: int,
    tell: Callable[[NotebookFile, LabError | None], None],
) -> dict[str, int]:
    """Execute the notebooks on recorded runs, and write the site whole or not at all; return the
    size of each of its files. Raises the first LabError that stops a notebook."""
    check_out(out)
    books: dict[str, Any] = {}

    def run(notebook: NotebookFile) -> None:
        values = {name: RECORDED[name] for name in RECORDED if name in declared(notebook)}
        books[notebook.path.name] = execute(
            open_notebook(notebook), notebook.path, values, progress=False
        )

    recorded.check(made_of.data)
    side_by_side(made_of.notebooks, run, jobs=jobs, tell=tell, fail_fast=True)
    pages = _pages(made_of, judged, books)
    next_step = "name another folder with --site"
    with written_to(out.parent, next_step):
        out.parent.mkdir(parents=True, exist_ok=True)
        with owned_folder(UNFINISHED, out.parent) as work:
            folder = work / "site"
            _write(folder, pages, made_of)
            if out.exists():
                out.rmdir()
            folder.rename(out)
    return {
        str(path.relative_to(out)): path.stat().st_size
        for path in sorted(out.rglob("*"))
        if path.is_file()
    }


def _pages(made_of: Sources, judged: Sequence[Judged], books: Mapping[str, Any]) -> dict[str, str]:
    """All pages and script files by address."""
    pages: dict[str, tuple[str, str]] = {}
    names = [
        (_address(notebook), title(books[notebook.path.name].cells) or notebook.stem)
        for notebook in made_of.notebooks
    ]
    for notebook, (address, name) in zip(made_of.notebooks, names, strict=True):
        place = Place(address, made_of.pages)
        shared = Shared(place.root + STYLE, place.root + PLOTLY, place.navigation())
        html = page(books[notebook.path.name], notebook.stem, shared)
        pages[address] = (name, NOTEBOOK_LINK.sub(r'href="\1.html\2', html))
    for path, address in document_pages(made_of.root).items():
        place = Place(address, made_of.pages)
        name, body = document(made_of.root, path, place, made_of.addresses)
        if address == "data.html":
            body = f"{body}\n{_downloads(made_of)}"
        pages[address] = (name, framed(place, name, body))
    index = _front(made_of, judged, books)
    notebooks = _contents("Notebooks", names)
    documents = [(at, name) for at, (name, _) in pages.items() if at.startswith("docs/")]
    lists = {
        "notebooks.html": notebooks,
        "docs.html": _contents(
            "Documents", sorted(documents, key=lambda document: document[1].lower())
        ),
    }
    return {
        "index.html": index,
        PLOTLY: get_plotlyjs(),
        STYLE: style_sheet(),
        **{at: html for at, (_, html) in pages.items()},
        **{at: framed(Place(at, made_of.pages), *both) for at, both in lists.items()},
    }


def _front(made_of: Sources, judged: Sequence[Judged], books: Mapping[str, Any]) -> str:
    ids = [verdict.id for each in judged for verdict in each.verdicts]
    charts = [
        chart
        for notebook in made_of.notebooks
        if (lab := checked_lab(notebook)) is not None
        for chart in charts_of(books[notebook.path.name], _address(notebook), lab, ids)
    ]
    shown: dict[str, tuple[str, str]] = {}
    for each in judged:
        shown |= best_charts(each.lab.name, each.verdicts, charts)
    place = Place("index.html", made_of.pages)
    body = claims_page.body(judged, Links(shown, "data/"))
    return framed(place, claims_page.TITLE, body, script("claims.js"))


def _address(notebook: NotebookFile) -> str:
    return f"notebooks/{notebook.path.stem}.html"


def _contents(name: str, pages: Sequence[tuple[str, str]]) -> tuple[str, str]:
    links = "".join(f'<li><a href="{at}">{escape(words)}</a></li>' for at, words in pages)
    return name, f'<h1>{name}</h1>\n<section class="text"><ul>{links}</ul></section>'


def _downloads(made_of: Sources) -> str:
    """The files of the recorded data with size and checksum."""
    sums = recorded.checksums(made_of.data)
    rows = "".join(
        f'<tr><th scope="row"><a href="data/{escape(name)}">{escape(name)}</a></th>'
        f"<td>{(made_of.data / name).stat().st_size:,}</td><td>{sums.get(name, '')}</td></tr>"
        for name in made_of.files
    )
    return (
        '<h2 id="downloads">Downloads</h2><table class="sums"><caption>Recorded runs</caption>'
        "<thead><tr>"
        '<th scope="col">File</th><th scope="col">Bytes</th><th scope="col">SHA-256</th></tr>'
        f"</thead><tbody>{rows}</tbody></table>"
    )


def _write(folder: Path, pages: Mapping[str, str], made_of: Sources) -> None:
    for address, text in pages.items():
        path = folder / address
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (folder / "data").mkdir()
    for name in made_of.files:
        shutil.copyfile(made_of.data / name, folder / "data" / name)
