"""Debian's chromium without a window, driven by Playwright.

Playwright rather than Selenium: one package drives the browser over its own protocol, prints a page
to PDF, and reports each request, script error and message of a page as it happens. It brings no
browser here; Selenium would need chromium-driver of the same version besides.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

BROWSERS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
PACKAGES = ("playwright", "pypdfium2")


def no_browser() -> str | None:
    """Why tests in a browser cannot run here, or None."""
    for package in PACKAGES:
        if importlib.util.find_spec(package) is None:
            return f"the Python package {package} is not installed: make ready"
    return None if executable() else "chromium is not installed: setup/system.sh test"


def executable() -> str | None:
    """The browser's program."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser of its own, closed at the end."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Its sandbox refuses root, and needs user namespaces; all pages here are the project's own.
        browser = playwright.chromium.launch(executable_path=executable(), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Watched:
    """What a page did besides being shown: addresses that it requested, errors that it reported."""

    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def watch(page: Page) -> Watched:
    """Record the page's requests, script errors and error messages from now on."""
    seen = Watched()
    page.on("request", lambda request: seen.requests.append(request.url))
    page.on("pageerror", lambda error: seen.errors.append(str(error)))
    page.on(
        "console",
        lambda message: seen.errors.append(message.text) if message.type == "error" else None,
    )
    return seen


def open_file(
    browser: Browser, path: Path, *, width: int, dark: bool = False
) -> tuple[Page, Watched]:
    """A page from a file, loaded and drawn, in a window of this width."""
    page = browser.new_page(
        viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
    )
    seen = watch(page)
    page.goto(path.resolve().as_uri())
    page.wait_for_load_state("load")
    # A function is compiled once; a bare expression at each try, which a page's policy forbids.
    page.wait_for_function(
        "() => [...document.querySelectorAll('.plot')].every(it => it.querySelector('.main-svg'))"
    )
    return page, seen
