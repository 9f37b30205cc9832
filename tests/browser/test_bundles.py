"""Bundles from strangers in a real browser: their content is text, runs nothing, loads nothing."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
import pytest

from labs.errors import Damaged
from labs.publish import html
from labs.publish.crate import PREVIEW
from labs.publish.execute import open_notebook
from labs.read.notebook_file import FIGURE, read_notebook
from labs.verify.verify import subject_of
from tests import hostile_bundles
from tests.browser.test_pages import ATTACK, DESKTOP_PX, FAULTS, PHONE_PX
from tests.chromium import open_file
from tests.hostile_bundles import files_of, hostile, made, notebook

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PAGES = ("script", "handler", "frame", "image", "script as an address", "base", "form")
"""Bundles whose page is not what `labs bundle` writes. `labs verify` refuses them; whoever opens
the page all the same is protected by its policy. That cannot stop a page that leads elsewhere by
itself ("refresh"), nor one that has another policy."""
FIGURE_OF_ATTACKS = {
    "data": [{"type": "bar", "x": [ATTACK], "y": [1], "name": ATTACK, "text": [ATTACK]}],
    "layout": {"title": {"text": ATTACK}, "meta": {"caption": ATTACK, "tell": ATTACK}},
}


def assert_harmless(browser: Browser, path: Path, width: int, *, blocked: bool = False) -> str:
    """Open a page and return its text; with `blocked`, its policy may report what it refused."""
    page, seen = open_file(browser, path, width=width)
    try:
        page.evaluate("document.querySelectorAll('details').forEach(it => it.open = true)")
        page.evaluate("() => document.querySelectorAll('a, p').forEach(it => it.onclick?.())")
        page.wait_for_timeout(100)
        assert page.evaluate("window.attacked") is None
        addresses = (path.resolve().as_uri(), "data:")
        # Of a request that the policy refuses the browser tells as well, and does not send it.
        assert blocked or [at for at in seen.requests if not at.startswith(addresses)] == []
        assert blocked or seen.errors == []
        assert page.url == path.resolve().as_uri()
        if not blocked:
            assert page.evaluate(FAULTS, False) == []
        return page.inner_text("body")
    finally:
        page.close()


def _received(server: socket.socket) -> bytes:
    """What the server was sent on the first connection; nothing without one."""
    try:
        connection, _ = server.accept()
    except BlockingIOError:
        return b""
    with connection:
        connection.settimeout(1)
        try:
            return connection.recv(1000)
        except TimeoutError:
            return b""


@pytest.mark.parametrize("width", [PHONE_PX, DESKTOP_PX])
def test_preview_shows_hostile_texts_as_text(browser: Browser, tmp_path: Path, width: int) -> None:
    out = made(tmp_path, title=ATTACK)
    subject_of(out)  # all of it is text, so nothing is refused
    path = tmp_path / PREVIEW
    path.write_bytes(files_of(out)[PREVIEW])
    text = assert_harmless(browser, path, width)
    assert ATTACK in text and hostile_bundles.MARKUP in text
    assert b"<script" not in path.read_bytes()


@pytest.mark.parametrize("name", PAGES)
def test_preview_with_markup_of_others_runs_nothing(
    browser: Browser, tmp_path: Path, name: str
) -> None:
    """Every address of another host is replaced by that of a server here, which gets no byte. For a
    frame, chromium opens a connection in advance, before it refuses the frame."""
    path = tmp_path / PREVIEW
    page = files_of(hostile(name, made(tmp_path / "good"), tmp_path / "sent"))[PREVIEW]
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        here = f"127.0.0.1:{server.getsockname()[1]}".encode()
        changed = page.replace(b"http://example.org", b"http://" + here)
        path.write_bytes(changed.replace(b"alert(1)", b"window.attacked=1"))
        assert_harmless(browser, path, DESKTOP_PX, blocked=True)
        assert _received(server) == b""


@pytest.mark.parametrize("name", hostile_bundles.RUN_BY_BROWSERS)
def test_subject_of_refuses_a_page_whose_script_chromium_runs(
    browser: Browser, tmp_path: Path, name: str
) -> None:
    """The page is opened all the same, to see that its script would have run."""
    packed = hostile(name, made(tmp_path / "good"), tmp_path / "sent")
    with pytest.raises(Damaged) as caught:
        subject_of(packed)
    assert len(str(caught.value).splitlines()) == 1
    path = tmp_path / PREVIEW
    path.write_bytes(files_of(packed)[PREVIEW].replace(b"alert(1)", b"window.attacked=1"))
    page, _ = open_file(browser, path, width=DESKTOP_PX)
    try:
        assert page.evaluate("window.attacked") == 1
    finally:
        page.close()


def test_notebook_of_a_hostile_bundle_is_a_harmless_page(browser: Browser, tmp_path: Path) -> None:
    """Its outputs are HTML, an image, a figure and a widget's script, all of them attacks."""
    source = notebook(tmp_path, ATTACK)
    book = nbformat.read(source, as_version=4)
    data = [
        {"text/html": ATTACK},
        {"image/svg+xml": f"<svg onload='window.attacked=1'>{ATTACK}</svg>"},
        {"application/javascript": "window.attacked = 1"},
        {"text/markdown": ATTACK},
        {"text/latex": ATTACK},
        {FIGURE: FIGURE_OF_ATTACKS},
    ]
    book.cells[-1].outputs = [
        nbformat.v4.new_output("display_data", data=bundle_data, metadata={})
        for bundle_data in data
    ]
    nbformat.write(book, source)
    out = tmp_path / "page.html"
    out.write_text(html.page(open_notebook(read_notebook(source)), "a page"), encoding="utf-8")
    assert ATTACK in assert_harmless(browser, out, DESKTOP_PX, blocked=True)
