"""What the doctor adds to a diagnosis, and the audit: text, JSON, the page, refusals."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from labs.cli.__main__ import main
from labs.cli.doctor import as_json, lines, verdict, with_places, without_shaping
from labs.drive import testbeds
from labs.drive.testbed.diagnosis import Check, Diagnosis
from labs.launch import slots
from labs.read.audit.machine import audit
from tests.recorded_audits import ROOT, USER, recorded

VIRTUAL = Diagnosis(testbeds.VIRTUAL, ())


@pytest.fixture(autouse=True)
def one_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("LABS_JOBS", "1")


def test_with_places_says_who_holds_them() -> None:
    (free,) = with_places(VIRTUAL).checks
    assert free.ok and not free.needed
    with slots.slot("both", lambda: False, pytest.fail):
        (taken,) = with_places(VIRTUAL).checks
    assert not taken.ok and not taken.needed
    assert f"process {os.getpid()} (both, " in taken.finding


def test_with_places_says_why_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABS_JOBS", "none")
    (check,) = with_places(VIRTUAL).checks
    assert not check.ok and "LABS_JOBS" in check.finding


def test_with_places_says_nothing_of_them_where_nothing_runs() -> None:
    lacking = Diagnosis(testbeds.VIRTUAL, (Check("kernel", False, "none"),))
    for diagnosis in (lacking, Diagnosis(testbeds.RECORDED, ())):
        assert with_places(diagnosis) == diagnosis


def test_verdict_without_netem_names_the_labs_that_run() -> None:
    """All links of `stack` have neither a rate nor a delay; of `nagle` those of the article, but
    for `bulk` and `small-writes` over a long link, and for ACKs that netem drops."""
    namespaces = Diagnosis(testbeds.NAMESPACES, (Check("netem", False, "none", needed=False),))
    assert namespaces.can_run
    assert without_shaping() == [
        "buffers (3 of 200 conditions)",
        "nagle (28 of 34 conditions)",
        "stack",
    ]
    assert verdict(namespaces).startswith("can run only buffers (3 of 200 conditions); nagle")
    assert verdict(replace(namespaces, checks=(Check("netem", True, "this"),))) == "can run"
    lacking = replace(namespaces, checks=(Check("rights", False, "not root"),))
    assert verdict(lacking) == "cannot run here"
    assert as_json(namespaces)["shapes_links"] is False


def test_audit_prints_an_array_of_items(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "audit", "--json"]) == 0
    items = json.loads(capsys.readouterr().out)
    assert isinstance(items, list) and len(items) >= 50
    for item in items:
        assert item["machine"] == "here"
        assert (item["value"] is None) == bool(item["unknown"])


def test_audit_writes_a_page_and_prints_its_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "audit.html"
    assert main(["doctor", "audit", "--html", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert out.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--testbed", "virtual"], "--testbed virtual cannot be audited. Allowed: here, vagrant"),
        (["--html", "page.txt"], "the name must end in .html"),
    ],
)
def test_audit_refuses(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "audit", *words]) == 2
    assert says in capsys.readouterr().err


def test_audit_without_machines_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VAGRANT_DOTFILE_PATH", str(tmp_path / "none"))
    assert main(["doctor", "audit", "--testbed", "vagrant"]) == 3
    assert "vagrant up" in capsys.readouterr().err


def test_audit_lines_give_reasons_for_what_deviates() -> None:
    text = "\n".join(lines(audit(recorded(ROOT)), 100))
    assert "  ! Rules: 14\n      wanted: 0 (article 2, firewalls)\n" in text
    assert "      change: nft flush ruleset\n" in text
    assert "    Hyper-threading: off\n" in text
    assert all(len(line) <= 100 for line in text.splitlines())


def test_audit_lines_count_what_only_root_can_read() -> None:
    *_, last = lines(audit(recorded(USER)), 100)
    assert last.startswith(f"{len(audit(recorded(USER)))} items: ")
    assert "3 of them only root can read" in last
