"""The page of an audit in a real browser: a phone, a desktop, a dark screen, paper."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from labs.publish.audit_page import page as page_of
from labs.read.audit.items import in_order
from labs.read.audit.machine import audit
from tests.browser.test_pages import FAINT, FAULTS, SHEET_PX, WINDOWS, printed
from tests.chromium import chromium, open_file
from tests.recorded_audits import ROOT, USER, recorded

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


@pytest.mark.parametrize(("width", "dark"), WINDOWS)
def test_audit_page_fits_the_window(audited: Path, width: int, dark: bool) -> None:
    with chromium() as browser:
        page, seen = open_file(browser, audited, width=width, dark=dark)
        for opened in (False, True):
            page.evaluate(
                "on => document.querySelectorAll('details').forEach(it => it.open = on)", opened
            )
            assert page.evaluate(FAULTS, False) == []
            assert page.evaluate(FAINT) == []
        assert seen.errors == []
        assert [url for url in seen.requests if not url.startswith(("file:", "data:"))] == []


def test_audit_page_prints_what_deviates_with_its_reason(audited: Path, tmp_path: Path) -> None:
    with chromium() as browser:
        page, _ = open_file(browser, audited, width=SHEET_PX)
        page.emulate_media(media="print")
        assert page.evaluate(FAULTS, True) == []
        sheets = " ".join(printed(page, tmp_path / "audit.pdf"))
    assert "nft flush ruleset" in sheets and "Hyper-threading" in sheets
