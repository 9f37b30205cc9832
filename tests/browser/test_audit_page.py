"""The page of an audit in a real browser: a phone, a desktop, a dark screen, paper."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from labs.publish.audit_page import page as page_of
from labs.read.audit.items import in_order
from labs.read.audit.machine import audit
from tests.browser.test_pages import (
    DESKTOP_PX,
    FAINT,
    FAULTS,
    PHONE_PX,
    SHEET_PX,
    TABLET_PX,
    printed,
)
from tests.chromium import open_file
from tests.recorded_audits import ROOT, USER, recorded

if TYPE_CHECKING:
    from playwright.sync_api import Browser

OPEN = "on => document.querySelectorAll('details').forEach(it => it.open = on)"


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of two machines that differ in part."""
    raws = {"server": recorded(ROOT), "client": recorded(USER)}
    items = in_order(
        dataclasses.replace(item, machine=name) for name, raw in raws.items() for item in audit(raw)
    )
    path = tmp_path_factory.mktemp("pages") / "audit.html"
    path.write_text(page_of(items), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("width", "dark"),
    [(PHONE_PX, False), (TABLET_PX, False), (DESKTOP_PX, False), (PHONE_PX, True)],
)
def test_audit_page_fits_the_window(
    browser: Browser, audited: Path, width: int, dark: bool
) -> None:
    page, seen = open_file(browser, audited, width=width, dark=dark)
    try:
        for opened in (False, True):
            page.evaluate(
                "on => document.querySelectorAll('details').forEach(it => it.open = on)", opened
            )
            assert page.evaluate(FAULTS, False) == []
            assert page.evaluate(FAINT) == []
        assert seen.errors == []
        assert [url for url in seen.requests if not url.startswith(("file:", "data:"))] == []
    finally:
        page.close()


def test_audit_page_prints_what_deviates_with_its_reason(
    browser: Browser, audited: Path, tmp_path: Path
) -> None:
    page, _ = open_file(browser, audited, width=SHEET_PX)
    try:
        page.emulate_media(media="print")
        assert page.evaluate(FAULTS, True) == []
        sheets = " ".join(printed(page, tmp_path / "audit.pdf"))
    finally:
        page.close()
    assert "nft flush ruleset" in sheets and "Hyper-threading" in sheets
