"""A verdict's word, its factor, its reason; figures as one reads them."""

from __future__ import annotations

from typing import Any

import pytest

from labs.read.claims.verdict import DIFFERS, HOLDS, WORDS, WRONG, Finding, Note, Witness, together
from tests.made_verdicts import verdict


def test_verdict_words() -> None:
    assert verdict().words == "differs (factor 1.24)"
    assert verdict(verdict=HOLDS, factor=None).words == "holds"
    assert verdict(factor=0.004).words == verdict(expected="a budget").words == "differs"
    assert verdict(factor=0.01).words == "differs (factor 0.01)"
    assert str(verdict().witness) == "virtual · Linux 6.1.192"


def test_verdict_as_json() -> None:
    said = verdict(measured={"mean": 93.66, "end": 114.0}).as_json()
    assert said["witness"] == {"testbed": "virtual", "kernel": "6.1.192"}
    assert said["measured"] == {"mean": 93.66, "end": 114.0}
    assert (said["verdict"], said["factor"]) == ("differs", 1.2446)


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ({"verdict": "fine", "reason": "x"}, "is not a verdict"),
        ({"verdict": "holds on Linux 6.1", "reason": "x"}, "is not a verdict"),
        ({"verdict": WRONG, "reason": ""}, "needs its reason"),
        ({"verdict": HOLDS, "reason": "x", "factor": 1.0}, "factor goes only with"),
    ],
)
def test_finding_refuses_impossible_fields(said: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        Finding(**said)


def test_finding_accepts_every_word() -> None:
    for word in WORDS:
        factor = 1.5 if word == DIFFERS else None
        assert Finding(verdict=word, reason="for a reason", factor=factor).verdict == word


def test_verdict_basis_and_tolerance() -> None:
    assert verdict().basis == "shaped; 1000 Mbit/s"
    assert verdict(figures=6, judged=4).basis == "shaped; 1000 Mbit/s. 4 of 6 figures"
    assert verdict(conditions="", link="", figures=6, judged=6).basis == "6 of 6 figures"
    assert verdict().tolerance == "3 %: three digits"
    assert verdict(tolerance_pct=216.2).tolerance.startswith("a factor of 3.2 either way: ")
    assert verdict(tolerance_pct=None, tolerance_reason="").tolerance == ""


def test_together_names_each_testbed_and_kernel_once() -> None:
    both = Witness("virtual, vagrant", "6.12.1, 6.1.1")
    assert together([Witness("virtual", "6.1.1"), None, both]) == Witness(
        "virtual, vagrant", "6.1.1, 6.12.1"
    )
    assert together([None]) is None


def test_verdict_evidence_has_equal_reasons_once() -> None:
    one = verdict(measured=114.0, reason="it is full")
    same = verdict(reason="it is full", witness=Witness("vagrant", "6.1.0"))
    slower = verdict(measured=90.0, witness=Witness("virtual", "5.10.1"))
    found = verdict(witnesses=(one, same, slower), note=Note("It changed", "commit x"))
    assert found.evidence == (
        "virtual, vagrant · Linux 6.1.192, 6.1.0: it is full",
        "virtual · Linux 5.10.1: 90 (MiB/s): no machine",
        "Judged on: shaped; 1000 Mbit/s",
        "Tolerance: 3 %: three digits",
        "It changed (commit x)",
    )
    assert found.because == "It changed"
