"""A verdict's word, its factor, its reason; figures as one reads them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from labs.experiments.buffers.results import article
from labs.read.claims.verdict import (
    DIFFERS,
    DISPUTED,
    HARDWARE,
    HOLDS,
    NOT_JUDGED,
    RIGHT_NUMBER,
    UNKNOWN_CAUSE,
    WORDS,
    WRONG,
    Finding,
    Verdict,
    Witness,
    by_both,
    by_kernel,
)

LEDGER = article()
KERNELS = ("6.1.1", "6.6.1", "6.12.1")


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
            "conditions": "shaped",
            "link": "1000 Mbit/s",
            "figures": 1,
            "judged": 1,
            "witness": Witness("virtual", "6.1.192"),
            **changed,
        }
    )


def test_verdict_words() -> None:
    assert verdict().words == "differs (factor 1.24)"
    assert verdict(verdict=HOLDS, factor=None).words == "holds"
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
        ({"verdict": DIFFERS, "reason": "x"}, "factor goes with"),
        ({"verdict": HOLDS, "reason": "x", "factor": 1.0}, "factor goes with"),
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
    assert verdict(tolerance_pct=None, tolerance_reason="").tolerance == ""


def on(kernel: str, word: str, **changed: Any) -> Verdict:
    factor = 1.5 if word == DIFFERS else None
    reason = f"found on {kernel}"
    return verdict(
        verdict=word, factor=factor, witness=Witness("virtual", kernel), reason=reason, **changed
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((HOLDS, HOLDS, HOLDS), "holds"),
        ((DIFFERS, DIFFERS, DIFFERS), "differs"),
        ((HOLDS, WRONG, DIFFERS), "holds on Linux 6.1, not on 6.6, 6.12"),
        ((HOLDS, HOLDS, WRONG), "holds on Linux 6.1, 6.6, not on 6.12"),
        ((WRONG, HOLDS, HOLDS), "holds on Linux 6.6, 6.12, not on 6.1"),
        (
            (RIGHT_NUMBER, WRONG, WRONG),
            "right number, wrong reason on Linux 6.1, wrong on 6.6, 6.12",
        ),
        ((HOLDS, NOT_JUDGED, NOT_JUDGED), "holds"),
        ((NOT_JUDGED, WRONG, NOT_JUDGED), "wrong"),
        ((NOT_JUDGED, NOT_JUDGED, NOT_JUDGED), "not judged"),
        ((HARDWARE, HARDWARE, HARDWARE), "hardware"),
    ],
)
def test_by_kernel_words(words: tuple[str, ...], said: str) -> None:
    kernels = [[on(kernel, word)] for kernel, word in zip(KERNELS, words, strict=True)]
    (found,) = by_kernel(LEDGER, *kernels)
    assert found.verdict == said


def test_by_kernel_gives_the_reason_of_each_and_the_explanation() -> None:
    claim = dataclasses.replace(LEDGER.claims[1], changed="From 6.6 on it is slow", source="x")
    ledger = dataclasses.replace(LEDGER, claims=(claim,))
    (found,) = by_kernel(ledger, [on("6.12.1", WRONG)], [on("6.1.1", HOLDS)])
    assert found.reason == (
        "Linux 6.1.1: 114 MiB/s, found on 6.1.1. Linux 6.12.1: 114 MiB/s, found on 6.12.1. "
        "From 6.6 on it is slow (x)"
    )
    assert found.witness == Witness("virtual", "6.1.1, 6.12.1")


def beside(one: Verdict, other: Verdict) -> Verdict:
    (found,) = by_both(LEDGER, [one], [other], [])
    return found


def test_by_both_names_two_witnesses_of_one_verdict() -> None:
    machines = Witness("vagrant", "6.1.0-49")
    other = on("6.1.1", HOLDS, measured=113.0, link="200 Mbit/s")
    found = beside(on("6.1.1", HOLDS), dataclasses.replace(other, witness=machines))
    assert found.verdict == HOLDS
    assert found.witness == Witness("virtual, vagrant", "6.1.1, 6.1.0-49")
    assert found.reason == "found on 6.1.1; vagrant · Linux 6.1.0-49: measured 113"
    assert found.link == "1000 Mbit/s (virtual); 200 Mbit/s (vagrant)"


def test_by_both_of_other_verdicts() -> None:
    alone = on("6.1.1", HOLDS)
    assert beside(alone, on("6.1.1", NOT_JUDGED)) == alone
    assert beside(alone, on("6.1.1", WRONG)).verdict == DISPUTED
    above = on("6.1.1", DIFFERS)
    below = dataclasses.replace(above, factor=0.5, witness=Witness("vagrant", "6.1.0"))
    assert beside(above, below).verdict == DISPUTED
    assert beside(above, dataclasses.replace(below, factor=1.4)).verdict == DIFFERS
    newer = dataclasses.replace(on("6.12.1", WRONG), witness=Witness("vagrant", "6.12.1"))
    apart = beside(alone, newer)
    assert apart.verdict == "holds on virtual (Linux 6.1), not on vagrant (Linux 6.12)"
    assert apart.reason.endswith(UNKNOWN_CAUSE)
    assert apart.witness == Witness("virtual, vagrant", "6.1.1, 6.12.1")
    hardware = on("6.1.1", HARDWARE)
    machines = dataclasses.replace(hardware, witness=Witness("vagrant", "6.1.0"))
    assert beside(hardware, machines).reason == "found on 6.1.1; vagrant · Linux 6.1.0: the same"
    slower = dataclasses.replace(machines, measured=95.0, reason="a late shaper")
    assert beside(hardware, slower).reason.endswith("Linux 6.1.0: measured 95, a late shaper")
    assert beside(alone, alone) == alone
    assert beside(on("6.1.1", HARDWARE, measured=None), hardware) == hardware


def test_by_both_of_a_claim_that_the_first_cannot_judge() -> None:
    unjudged = on("6.1.1", NOT_JUDGED, measured=None)
    machines = Witness("vagrant", "6.1.0")
    judged, undecided = (
        dataclasses.replace(on("6.1.0", word), witness=machines) for word in (HOLDS, NOT_JUDGED)
    )
    assert beside(unjudged, judged) == judged
    assert beside(unjudged, undecided) == undecided
    assert beside(unjudged, dataclasses.replace(undecided, measured=None)) == unjudged
    both = beside(on("6.1.1", NOT_JUDGED), undecided)
    assert both.reason == (
        "virtual · Linux 6.1.1: found on 6.1.1. vagrant · Linux 6.1.0: found on 6.1.0"
    )
    assert both.witness == Witness("virtual, vagrant", "6.1.1, 6.1.0")


def test_by_both_names_the_kernels_where_the_testbeds_are_not_the_difference() -> None:
    both = dataclasses.replace(on("6.1.1", HOLDS), witness=Witness("virtual, vagrant", "6.1.1"))
    (found,) = by_kernel(LEDGER, [both], [on("6.12.1", WRONG)])
    assert found.verdict == "holds on Linux 6.1, not on 6.12"
    third = dataclasses.replace(on("7.2.1", WRONG), witness=Witness("vagrant", "7.2.1"))
    (found,) = by_kernel(LEDGER, [on("6.1.1", HOLDS)], [on("6.12.1", WRONG)], [third])
    assert found.verdict == "holds on Linux 6.1, not on 6.12, 7.2"
