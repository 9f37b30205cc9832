"""The site in a real browser, from a file: a phone, a desktop, a dark screen, paper; hostile texts.

The site has a lab's claims and the first notebook, and claims, a notebook and a document that try
to run something.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_raw_cell

from labs.catalog import find
from labs.publish import site
from labs.publish.claims_page import Judged
from labs.read.claims.ledger import read
from labs.read.notebook_file import read_notebook
from labs.read.runs import recorded
from tests.browser.test_pages import ATTACK, DESKTOP_PX, FAULTS, PHONE_PX, SHEET_PX, printed
from tests.chromium import open_file
from tests.made_verdicts import verdict

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parents[2]
HOSTILE, START = "hostile", "00-start-here"
PAGES = ("index", f"notebooks/{START}", f"notebooks/{HOSTILE}", "docs/hostile", "data", "docs")
MOST_FRONT_BYTES = 300_000
SOURCE = f"""import plotly.graph_objects as go
from IPython.display import HTML, display
display(HTML({ATTACK!r}))
print({ATTACK!r})
figure = go.Figure(go.Bar(x=[{ATTACK!r}], y=[1], name={ATTACK!r}))
figure.update_layout(title={ATTACK!r}, xaxis_title={ATTACK!r})
figure"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of few parts, written as the command does."""
    project = tmp_path_factory.mktemp("project")
    for name in ("docs", "data", "notebooks"):
        (project / name).mkdir()
    (project / "docs" / "hostile.md").write_text(f"# {ATTACK}\n\n{ATTACK}\n\n[x](javascript:x)\n")
    for name in ("nagle-kernels.tar.xz", recorded.PROSE):
        shutil.copy(ROOT / "data" / name, project / "data")
    recorded.write_sums(project / "data")
    shutil.copy(ROOT / "notebooks" / f"{START}.ipynb", project / "notebooks")
    cells = [new_markdown_cell(f"# {ATTACK}\n\n## {ATTACK}\n\n{ATTACK}"), new_raw_cell(ATTACK)]
    book = new_notebook(cells=[*cells, new_code_cell(SOURCE)])
    nbformat.write(book, project / "notebooks" / f"{HOSTILE}.ipynb")
    notebooks = map(read_notebook, sorted(project.glob("notebooks/*.ipynb")))
    lab = find("buffers")
    assert lab.ledger is not None
    fields = ("statement", "reason", "unit", "tolerance_reason", "link", "conditions")
    attacks = [verdict(id=f"A1.{n}", **{name: ATTACK}) for n, name in enumerate(fields, 90)]
    out = tmp_path_factory.mktemp("out") / "site"
    site.write_site(
        out,
        site.Sources(project, tuple(notebooks), project / "data"),
        [site.judged(find("nagle")), Judged(lab, read(lab.ledger), attacks)],
        jobs=2,
        tell=lambda notebook, error: None,
    )
    return out


@pytest.mark.parametrize(
    ("width", "dark"), [(PHONE_PX, False), (DESKTOP_PX, False), (DESKTOP_PX, True)]
)
@pytest.mark.parametrize("name", PAGES)
def test_site_page_fits_and_runs_nothing_of_others(
    browser: Browser, written: Path, name: str, width: int, dark: bool
) -> None:
    page, seen = open_file(browser, written / f"{name}.html", width=width, dark=dark)
    try:
        page.evaluate("document.querySelectorAll('details').forEach(it => it.open = true)")
        assert seen.errors == []
        assert page.evaluate("window.attacked") is None
        here = written.as_uri()
        assert [at for at in seen.requests if not at.startswith((here, "data:"))] == []
        if HOSTILE not in name:  # its figure has neither a text alternative nor a table
            assert page.evaluate(FAULTS, False) == []
    finally:
        page.close()


def test_site_front_page_is_light(written: Path) -> None:
    files = ("index.html", "style.css")
    assert sum((written / name).stat().st_size for name in files) < MOST_FRONT_BYTES


def test_site_front_page_filters_claims(browser: Browser, written: Path) -> None:
    page, _ = open_file(browser, written / "index.html", width=DESKTOP_PX)
    shown = "[...document.querySelectorAll('.claim:not([hidden])')].map(it => it.id)"
    try:
        every = page.evaluate(shown)
        page.select_option("select[name=article]", "3")
        of_article = page.evaluate(shown)
        assert of_article and {claim_id.split(".")[0] for claim_id in of_article} == {"A3"}
        page.select_option("select[name=kernel]", "5.10")
        page.select_option("select[name=testbed]", "virtual")
        on_kernel = page.evaluate(shown)
        assert 0 < len(on_kernel) < len(of_article)
        page.select_option("select[name=testbed]", "vagrant")  # which has no such kernel
        assert page.evaluate(shown) == []
        page.click("button[type=reset]")
        page.wait_for_function(f"() => {shown}.length === {len(every)}")
    finally:
        page.close()


def test_site_front_page_prints_every_claim(
    browser: Browser, written: Path, tmp_path: Path
) -> None:
    page, _ = open_file(browser, written / "index.html", width=SHEET_PX)
    try:
        page.emulate_media(media="print")
        assert page.evaluate(FAULTS, True) == []
        sheets = " ".join(printed(page, tmp_path / "claims.pdf"))
    finally:
        page.close()
    lab = find("nagle")
    assert lab.ledger is not None
    assert [claim.id for claim in read(lab.ledger).claims if claim.id not in sheets] == []


def test_site_links_lead_to_existing_places(browser: Browser, written: Path) -> None:
    """Of the pages that are in this site: the whole one has all of the project's."""
    page, _ = open_file(browser, written / "index.html", width=DESKTOP_PX)
    links = "[...document.querySelectorAll('a')].map(it => it.href)"
    try:
        addresses = set(page.evaluate(links))
    finally:
        page.close()
    local = [at for at in addresses if at.startswith("file:")]
    pages = {at.partition("#")[0].removeprefix("file://") for at in local}
    lacking = {Path(at).name for at in pages if not Path(at).is_file()}
    assert {address for address in lacking if not address.endswith(".tar.xz")} <= {
        "publishing.html"
    }
