"""What every claim of every lab keeps to, on made rows: whatever the runs, a verdict has a reason
in one line and a witness, and there are runs with which the claim does not hold."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labs.catalog import with_ledgers
from labs.read.claims.draw_index import Draw
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import judge, judges_of
from labs.read.claims.ledger import Claim, read
from labs.read.claims.rules import check_columns
from labs.read.claims.verdict import HARDWARE, HOLDS, NOT_JUDGED, Verdict, Witness
from labs.read.lab import Lab

TRIES = 600
DRAWS = 5
KNOWN = {
    "testbed": "virtual",
    "kernel": "6.1.1",
    "link_ok": True,
    "link_asked": "1 Mbit/s, 8 ms",
    "note_codes": "",
    "digest": "0",
}
CLAIMS = [
    pytest.param(lab, claim, id=claim.id)
    for lab in with_ledgers()
    for claim in read(lab.ledger or Path()).claims
]


def conditions(claim: Claim) -> list[str]:
    """The conditions that a claim names; of a pattern, as many as it needs draws."""
    named = [reference.rpartition(".")[0] for reference in claim.references]
    patterns = dict.fromkeys((*claim.conditions, *claim.requires, *filter(None, named)))
    return [
        pattern.replace("*", str(draw))
        for pattern in patterns
        for draw in range(DRAWS if "*" in pattern else 1)
    ]


def made(lab: Lab, claim: Claim, chance: random.Random) -> Evidence:
    """Rows with figures of any size, near the article's, 0 or 1."""
    articles = [float(value) for value in claim.named_figures.values() if is_number(value)] or [1.0]

    def figure() -> float:
        sizes = [0, 1, 10 ** chance.uniform(-2, 9), chance.choice(articles)]
        sizes.append(chance.choice(articles) * chance.uniform(0.5, 1.5))
        return chance.choice(sizes)

    def row(name: str) -> Mapping[str, Any]:
        fixed = {column: values[0] for column, values in claim.requires.get(name, {}).items()}
        return {
            **{column: figure() for column in lab.columns},
            "rtt_ms": 200.0,
            "rate_mbit": 1000.0,
            **KNOWN,
            "condition": name,
            **fixed,
        }

    rows = {name: row(name) for name in conditions(claim)}
    return Evidence(lab, {}, draw=Draw({}, 1, Witness("virtual", "6.1.1"), rows, {}, ""))


def is_number(value: object) -> bool:
    return isinstance(value, int | float)


def verdicts(lab: Lab, claim: Claim) -> Iterator[Verdict]:
    """The verdicts on made rows, whatever the parameters of the runs."""
    chance = random.Random(claim.id)
    free = replace(claim, parameters=(), figure_parameters={}, shown_at=())
    for _ in range(TRIES):
        yield judge(free, made(lab, claim, chance), judges_of(lab), {})


@pytest.mark.parametrize(("lab", "claim"), CLAIMS)
def test_rule_of_every_claim_can_fail_and_has_a_reason(lab: Lab, claim: Claim) -> None:
    """Claims with judging functions have tests of their own; what is shown has no word."""
    if claim.judge is not None:
        pytest.skip("judged by a function of the lab")
    shown = claim.hardware or (claim.rule is not None and claim.rule.kind == "shown")
    for verdict in verdicts(lab, claim):
        assert verdict.reason and verdict.reason.isprintable()
        assert "{" not in verdict.reason and "[?" not in verdict.reason
        assert verdict.witness == Witness("virtual", "6.1.1")
        if shown:
            assert verdict.verdict in (HARDWARE, NOT_JUDGED)
            return
        if verdict.verdict not in (HOLDS, NOT_JUDGED):
            return
    raise AssertionError(f"{claim.id} does not fail with any of {TRIES} rows")


@pytest.mark.parametrize("lab", [pytest.param(lab, id=lab.name) for lab in with_ledgers()])
def test_columns_and_judging_functions_of_the_claims_exist_and_are_used(lab: Lab) -> None:
    article = read(lab.ledger or Path())
    check_columns(lab, article)
    assert {claim.judge for claim in article.claims} - {None} == set(judges_of(lab))


def test_few_claims_need_a_judging_function() -> None:
    assert sum(len(judges_of(lab)) for lab in with_ledgers()) <= 20
