"""A verdict's word, its factor, its reason; figures as one reads them."""

from __future__ import annotations

from typing import Any

import pytest

from labs.read.claims.verdict import (
    DIFFERS,
    HOLDS,
    WORDS,
    WRONG,
    Finding,
    Verdict,
    Witness,
    held_until,
)


def verdict(**changed: Any) -> Verdict:
    return Verdict(
        **{
            "id": "A1.2",
            "statement": "It is fast.",
            "expected": 91.6,
            "unit": "MiB/s",
            "tolerance_pct": 3.0,
            "tolerance_reason": "three digits",
            "predicted": 114.0,
            "measured": 114.0,
            "verdict": DIFFERS,
            "factor": 1.2446,
            "reason": "no machine",
            "witness": Witness("virtual", "6.1.192"),
            **changed,
        }
    )


def test_verdict_words() -> None:
    assert verdict().words == "differs (factor 1.24)"
    assert verdict(verdict=HOLDS, factor=None).words == "holds"
    assert verdict(verdict=held_until("6.5"), factor=None).words == "held until kernel 6.5"
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
        ({"verdict": "held until kernel", "reason": "x"}, "is not a verdict"),
        ({"verdict": "held until kernel six", "reason": "x"}, "is not a verdict"),
        ({"verdict": WRONG, "reason": ""}, "needs its reason"),
        ({"verdict": DIFFERS, "reason": "x"}, "factor goes with"),
        ({"verdict": HOLDS, "reason": "x", "factor": 1.0}, "factor goes with"),
    ],
)
def test_finding_refuses_impossible_fields(said: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        Finding(**said)


def test_finding_accepts_every_word() -> None:
    for word in (*WORDS, held_until("6.15")):
        factor = 1.5 if word == DIFFERS else None
        assert Finding(verdict=word, reason="for a reason", factor=factor).verdict == word
