"""Published notebooks in a real browser: a phone, a tablet, a desktop, a dark screen, paper."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import plotly.graph_objects as go
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output, new_raw_cell

from labs.cli.__main__ import main
from labs.publish import html
from labs.publish.page_parameters import declared
from labs.read.notebook_file import FIGURE, read_notebook
from tests.chromium import Watched, open_file
from tests.kept_runs import STORE, text

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HERE = Path(__file__).parent
FAULTS, FAINT = (
    (HERE / name).read_text(encoding="utf-8") for name in ("page_faults.js", "faint_texts.js")
)
NOTEBOOKS = sorted((HERE.parents[1] / "notebooks").glob("*.ipynb"))
IDS = [path.stem for path in NOTEBOOKS]
PHONE_PX, TABLET_PX, DESKTOP_PX, HEIGHT_PX = 390, 768, 1280, 900
SHEET_PX = 680
"""What a sheet of A4 has between margins of 15 mm, at 96 pixels per inch."""
A4_POINTS = (595, 842)
TWO_FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""Until what depends on the size of the window has followed it."""
BACKGROUND = "getComputedStyle(document.body).backgroundColor"


@pytest.fixture(scope="module", params=NOTEBOOKS, ids=IDS)
def published(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A notebook of the project as a page, from the recorded runs; kept until an input changes."""
    notebook: Path = request.param
    page = tmp_path_factory.mktemp("pages") / f"{notebook.stem}.html"

    def publish() -> str:
        wanted = {"TESTBED": "recorded", "RUNS": str(page.parent / "runs"), "SIZE": "full"}
        names = declared(read_notebook(notebook))
        given = [
            word
            for name, value in wanted.items()
            if name in names
            for word in ("--set", f"{name}={value}")
        ]
        assert main(["publish", str(notebook), *given, "--out", str(page)]) == 0
        return page.read_text(encoding="utf-8")

    page.write_text(text(STORE, inputs_of(notebook), publish), encoding="utf-8")
    return page


def inputs_of(notebook: Path) -> str:
    """The digest of all that a page is made from: the notebook, code, data, packages, Python."""
    root = HERE.parents[1]
    files = [notebook, root / "requirements.lock", *(root / "data").iterdir()]
    files += [path for path in (root / "labs").rglob("*") if "__pycache__" not in path.parts]
    digest = hashlib.sha256(sys.version.encode())
    for file in sorted(path for path in files if path.is_file()):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"\n{file.relative_to(root)} {content}".encode())
    return digest.hexdigest()


@pytest.fixture(scope="module")
def phone(browser: Browser, published: Path) -> Iterator[tuple[Page, Watched]]:
    """The page in a narrow window, for all tests of a notebook, which leave it as it was."""
    opened = open_file(browser, published, width=PHONE_PX)
    yield opened
    opened[0].close()


@pytest.fixture(scope="module")
def desktop(browser: Browser, published: Path) -> Iterator[tuple[Page, Watched]]:
    """The page in a wide window, for all tests of a notebook, which leave it as it was."""
    opened = open_file(browser, published, width=DESKTOP_PX)
    yield opened
    opened[0].close()


def check_fit(page: Page, seen: Watched) -> None:
    assert page.evaluate(FAULTS, False) == []
    assert page.evaluate(FAINT) == []
    assert seen.errors == []
    assert [url for url in seen.requests if not url.startswith(("file:", "data:"))] == []


def test_page_fits_a_phone(phone: tuple[Page, Watched]) -> None:
    check_fit(*phone)


def test_page_fits_a_desktop(desktop: tuple[Page, Watched]) -> None:
    check_fit(*desktop)


def test_page_fits_a_dark_phone(phone: tuple[Page, Watched]) -> None:
    """Dark colours are a matter of the style sheet alone, so the page need not be loaded again."""
    page, seen = phone
    light = page.evaluate(BACKGROUND)
    page.emulate_media(color_scheme="dark")
    try:
        assert page.evaluate(BACKGROUND) != light
        check_fit(page, seen)
    finally:
        page.emulate_media(color_scheme="light")


def test_page_follows_a_window_that_is_made_narrower(desktop: tuple[Page, Watched]) -> None:
    page, seen = desktop
    try:
        page.set_viewport_size({"width": TABLET_PX, "height": HEIGHT_PX})
        for _ in range(50):  # charts are drawn again once the window has rested
            if page.evaluate(FAULTS, False) == []:
                break
            page.wait_for_timeout(100)
        check_fit(page, seen)
    finally:
        page.set_viewport_size({"width": DESKTOP_PX, "height": HEIGHT_PX})


def test_page_fits_a_sheet_of_paper(desktop: tuple[Page, Watched]) -> None:
    page, seen = desktop
    try:
        page.set_viewport_size({"width": SHEET_PX, "height": HEIGHT_PX})
        page.evaluate(TWO_FRAMES)
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.evaluate(FAULTS, True) == []
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        page.emulate_media(media="screen")
        page.evaluate(TWO_FRAMES)
        assert page.evaluate(FAULTS, False) == [] == seen.errors
    finally:
        page.emulate_media(media="null")
        page.set_viewport_size({"width": DESKTOP_PX, "height": HEIGHT_PX})


def test_page_prints_parameters_and_whole_figures(
    desktop: tuple[Page, Watched], published: Path
) -> None:
    page, seen = desktop
    figures = titles_and_captions(page)
    sheets = printed(page, published.with_suffix(".pdf"))
    assert seen.errors == []
    every = " ".join(sheets)
    assert any(phrase in every for phrase in ('TESTBED = "recorded"', 'INDEX = ""', "CAPTURE = "))
    assert all(len(sheet) > 20 for sheet in sheets), "an empty sheet"
    for title, caption in figures:
        assert any(title in sheet and caption in sheet for sheet in sheets), title


def titles_and_captions(page: Page) -> list[tuple[str, str]]:
    pairs: list[list[str]] = page.eval_on_selector_all(
        "figure.chart",
        "all => all.map(it => [it.querySelector('figcaption').textContent,"
        " it.querySelector('.caption')?.textContent ?? ''])",
    )
    return [(squeezed(title), squeezed(caption)) for title, caption in pairs]


def printed(page: Page, path: Path) -> list[str]:
    """The text of each sheet, without breaks of lines."""
    import pypdfium2

    page.pdf(path=path, prefer_css_page_size=True)
    document = pypdfium2.PdfDocument(path)
    assert {tuple(round(side) for side in sheet.get_size()) for sheet in document} == {A4_POINTS}
    return [squeezed(sheet.get_textpage().get_text_range()) for sheet in document]


def squeezed(text: str) -> str:
    return " ".join(text.split())


def test_wide_table_scrolls_and_says_so(phone: tuple[Page, Watched]) -> None:
    page, _ = phone
    handle = page.locator(".html.more", has=page.locator("table")).first.element_handle()
    assert handle.evaluate("it => it.scrollWidth > it.clientWidth")
    handle.evaluate("it => it.scrollTo(it.scrollWidth, 0)")
    page.wait_for_function("it => !it.classList.contains('more')", arg=handle, timeout=5000)
    handle.evaluate("it => it.scrollTo(0, 0)")
    page.wait_for_function("it => it.classList.contains('more')", arg=handle, timeout=5000)


def test_legend_hides_and_shows_a_line(desktop: tuple[Page, Watched]) -> None:
    page, _ = desktop
    button = page.locator(".legend button").first
    figure = page.locator("figure.chart", has=page.locator(".legend")).first
    before = figure.locator(".trace").count()
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    page.wait_for_function("() => document.querySelector('.legend button[aria-pressed=false]')")
    assert figure.locator(".trace").count() < before
    button.click()
    assert figure.locator(".trace").count() == before


def test_own_classes_of_cells_leave_the_page_s_scripts_alone(
    browser: Browser, tmp_path: Path
) -> None:
    markup = "".join(
        f"<figure class='chart'><div class='{name}'>x<p class='js-plotly-plot'></p></div></figure>"
        for name in ("steps", "legend", "plot", "js-plotly-plot", "&#115;teps")
    )
    markup += '<svg class="steps" data-names="x"></svg>'
    figure = go.Figure([go.Bar(x=[1], y=[1], name=name) for name in "ab"])
    outputs = [
        new_output("display_data", data={"text/html": markup}),
        new_output("display_data", data={FIGURE: figure.to_plotly_json()}),
    ]
    cells = [new_markdown_cell(markup), new_raw_cell(markup), new_code_cell("1", outputs=outputs)]
    path = tmp_path / "page.html"
    path.write_text(html.page(new_notebook(cells=cells), "a page"), encoding="utf-8")
    page, seen = open_file(browser, path, width=DESKTOP_PX)
    try:
        button = page.locator(".legend button").first
        button.click()
        assert button.get_attribute("aria-pressed") == "false"
        page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
        assert page.locator(".steps").count() == 0 and page.locator(".plot").count() == 1
        assert seen.errors == []
    finally:
        page.close()


ATTACK = "<img src=x onerror='window.attacked = 1'><script>window.attacked = 1</script>"


def test_page_runs_nothing_that_a_notebook_brings(browser: Browser, tmp_path: Path) -> None:
    """The page is sanitised; what is added to it later is stopped by its policy alone."""
    output = new_output("display_data", data={"text/html": ATTACK})
    cells = [new_markdown_cell(ATTACK), new_raw_cell(ATTACK), new_code_cell("1", outputs=[output])]
    path = tmp_path / "page.html"
    path.write_text(html.page(new_notebook(cells=cells), "a page"), encoding="utf-8")
    page, seen = open_file(browser, path, width=768)
    try:
        assert page.evaluate("window.attacked") is None
        assert seen.errors == []
        page.evaluate("attack => document.body.insertAdjacentHTML('beforeend', attack)", ATTACK)
        page.evaluate(
            """() => new Promise((ready) => {
                const own = document.createElement("script");
                own.textContent = "window.attacked = 1";
                document.body.append(own);
                setTimeout(ready, 200);
            })"""
        )
        assert page.evaluate("window.attacked") is None
        assert any("Content Security Policy" in error for error in seen.errors)
    finally:
        page.close()
