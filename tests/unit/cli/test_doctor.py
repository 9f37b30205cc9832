"""What the doctor adds to a diagnosis: the places for runs, and who holds them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from labs.cli.doctor import as_json, verdict, with_places, without_shaping
from labs.drive import testbeds
from labs.drive.testbed.diagnosis import Check, Diagnosis
from labs.launch import slots

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
