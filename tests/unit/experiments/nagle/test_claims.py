"""Article 3 judged by the recorded runs, and by what they cannot say."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache

import pytest

from labs.catalog import find
from labs.experiments.nagle.conditions import Parameters as Nagle
from labs.experiments.nagle.results import article
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import judge, judges_of
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import DIFFERS, HOLDS, NOT_JUDGED, Verdict
from labs.read.runs.run import Run
from labs.studies.study import Study
from labs.studies.study import study as open_study
from tests.made_verdicts import verdicts
from tests.real_runs import recorded_nagle, with_condition

LAB = find("nagle")
LEDGER = article()
JUDGES = judges_of(LAB)


@cache
def study() -> Mapping[str, Run]:
    return {run.condition: run for run in recorded_nagle().runs}


@cache
def judged() -> Mapping[str, Verdict]:
    return {found.id: found for found in verdicts(LAB, study().values())}


def recorded_at(delay_ms: float) -> Study:
    return open_study(Nagle(testbed="recorded", delay_ms=delay_ms))


def one(claim: str | Claim, runs: Mapping[str, Run]) -> Verdict:
    chosen = LEDGER.claim(claim) if isinstance(claim, str) else claim
    return judge(chosen, Evidence(LAB, runs), JUDGES, LEDGER.parameters)


def test_on_the_machine_is_not_measured_on_virtual_time() -> None:
    found = judged()["A3.2"]
    assert found.measured is None and "not meaningful in virtual time" in found.reason
    here = {
        "on": dataclasses.replace(
            study()["on"],
            record={
                **study()["on"].record,
                "inputs": {**study()["on"].inputs, "testbed": "namespaces"},
            },
        )
    }
    assert isinstance(one("A3.2", here).measured, float)
    assert "there is no run to compare" in one("A3.2", {}).reason
    far = one("A3.2", {"on": with_condition(here["on"], link={"delay_ms": 20.0})})
    assert far.measured is None and "Other parameters" in far.reason


def test_coalesced_is_not_judged_where_acks_return_late() -> None:
    """At 20 ms an ACK returns after all writes, so the claim says nothing about it."""
    far = {run.condition: run for run in recorded_at(20.0).runs}
    found = one("A3.7a", far)
    assert (found.verdict, found.reason) == (NOT_JUDGED, "other parameters: delay_ms 20, not 0")
    assert one("A3.5", far).verdict == one("A3.6", far).verdict == HOLDS


def test_sequence_with_another_silence_differs() -> None:
    claim = LEDGER.claim("A3.3")
    assert claim.rule is not None
    longer = dataclasses.replace(claim.rule, comparisons=("silence_ms >= 60",))
    found = one(dataclasses.replace(claim, rule=longer), study())
    assert found.verdict == DIFFERS
    assert found.factor == pytest.approx(44 / 40, rel=0.01)
