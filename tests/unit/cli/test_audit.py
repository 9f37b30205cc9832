"""The command audit: text, JSON, the page, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labs.cli.__main__ import main
from labs.cli.audit import lines
from labs.read.audit.machine import audit
from tests.recorded_audits import ROOT, USER, recorded


def test_main_prints_an_array_of_items(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--json"]) == 0
    items = json.loads(capsys.readouterr().out)
    assert isinstance(items, list) and len(items) >= 50
    for item in items:
        assert item["machine"] == "here"
        assert (item["value"] is None) == bool(item["unknown"])


def test_main_writes_a_page_and_prints_its_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "audit.html"
    assert main(["audit", "--html", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert out.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--testbed", "virtual"], "--testbed virtual cannot be audited. Allowed: here, vagrant"),
        (["--html", "page.txt"], "the name of the page must end in .html"),
    ],
)
def test_main_refuses(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", *words]) == 2
    assert says in capsys.readouterr().err


def test_main_without_machines_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VAGRANT_DOTFILE_PATH", str(tmp_path / "none"))
    assert main(["audit", "--testbed", "vagrant"]) == 3
    assert "vagrant up" in capsys.readouterr().err


def test_lines_give_reasons_for_what_deviates() -> None:
    text = "\n".join(lines(audit(recorded(ROOT)), 100))
    assert "  ! Rules: 14\n      wanted: 0 (article 2, firewalls)\n" in text
    assert "      change: nft flush ruleset\n" in text
    assert "    Hyper-threading: off\n" in text
    assert all(len(line) <= 100 for line in text.splitlines())


def test_lines_count_what_only_root_can_read() -> None:
    *_, last = lines(audit(recorded(USER)), 100)
    assert last.startswith(f"{len(audit(recorded(USER)))} items: ")
    assert "3 of them only root can read" in last
