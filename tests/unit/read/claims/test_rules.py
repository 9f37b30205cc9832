"""The rules by which claims are judged, on a lab of a few rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from labs.catalog import find
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import follow
from labs.read.claims.ledger import Claim, Rule
from labs.read.claims.verdict import (
    BY_SOURCE,
    DIFFERS,
    HARDWARE,
    HOLDS,
    NOT_JUDGED,
    RIGHT_NUMBER,
    UNDECIDED,
    WRONG,
    Finding,
)

LAB = find("queues")
BECAUSE = {"because": "as measured"}
RATIO = "long.queue_ms / short.queue_ms"


def judged(
    rule: Rule, expected: Any = 1.0, tolerance_pct: float = 0.0, /, *, claim: Any = None, **row: Any
) -> Finding:
    """The finding of a rule, with a figure by condition (`a-1` is written a_1)."""
    rows: Mapping[str, Mapping[str, Any]] = {
        name.replace("_", "-"): {"queue_ms": value, "note_codes": "", "notes": ""}
        for name, value in row.items()
    }
    seen = Evidence(LAB, {}, rows=rows, file="draws")
    made: dict[str, Any] = {
        "id": "A6.1",
        "statement": "A figure.",
        "expected": expected,
        "unit": "ms",
        "tolerance_pct": tolerance_pct,
        "conditions": tuple(rows),
        "rule": rule,
    }
    return follow(Claim(**{**made, **(claim or {})}), seen)


def one_figure(kind: str, formula: str = "queue_ms", **options: Any) -> Rule:
    return Rule(kind=kind, figures={"": formula}, **options)


@pytest.mark.parametrize(
    ("kind", "figure", "verdict"),
    [
        ("at_most", 5.0, HOLDS),
        ("at_most", 5.9, HOLDS),
        ("at_most", 6.1, DIFFERS),
        ("at_least", 4.1, HOLDS),
        ("at_least", 3.9, DIFFERS),
        ("at_least", None, NOT_JUDGED),
        ("within", 5.9, HOLDS),
        ("within", 3.9, DIFFERS),
    ],
)
def test_limits_hold_within_the_tolerance(kind: str, figure: float | None, verdict: str) -> None:
    finding = judged(one_figure(kind), 5, 20, a=figure)
    assert finding.verdict == verdict
    if verdict == DIFFERS:
        assert finding.factor == pytest.approx((figure or 0) / 5)


def test_ratios_compare_one_condition_with_another() -> None:
    few = judged(one_figure("at_least", RATIO), 20, long=100.0, short=8.0)
    assert (few.verdict, few.measured) == (DIFFERS, 12.5)
    assert judged(one_figure("within", RATIO), 12, 5, long=100.0, short=8.0).verdict == HOLDS
    assert judged(one_figure("within", RATIO), 10, 5, long=100.0, short=8.0).verdict == DIFFERS


def test_ratios_without_a_figure_are_not_judged_and_an_empty_queue_is_short() -> None:
    for kind in ("at_least", "within"):
        rule = one_figure(kind, RATIO)
        assert judged(rule, 10, long=100.0, short=None).verdict == NOT_JUDGED
        assert judged(rule, 10, long=0.0, short=0.0).verdict == NOT_JUDGED
    endless = judged(one_figure("at_least", RATIO), 10, long=100.0, short=0.0)
    assert (endless.verdict, endless.measured) == (HOLDS, None)
    endless = judged(one_figure("within", RATIO), 10, long=100.0, short=0.0)
    assert (endless.verdict, endless.measured, endless.factor) == (DIFFERS, None, None)


@pytest.mark.parametrize(("figure", "holds"), [(29, True), (31, False), (3.4, True), (3.3, False)])
def test_a_tolerance_above_100_percent_is_a_factor_either_way(figure: float, holds: bool) -> None:
    assert (judged(one_figure("within"), 10, 200, a=figure).verdict == HOLDS) is holds


def test_of_several_figures_the_farthest_decides_and_shown_ones_do_not() -> None:
    rule = Rule(kind="within", figures={"x": "a.queue_ms", "y": "b.queue_ms"})
    both = {"x": 1.0, "y": 1.0}
    finding = judged(rule, both, 10, a=1.05, b=2.0)
    assert (finding.verdict, finding.factor) == (DIFFERS, 2.0)
    assert finding.measured == {"x": 1.05, "y": 2.0}
    assert judged(rule, both, 10, claim={"shown": ("y",)}, a=1.05, b=2.0).verdict == HOLDS


def test_exact_figures_have_no_tolerance() -> None:
    rule = Rule(kind="within", figures={"x": "a.queue_ms", "y": "b.queue_ms"}, exact=("x",))
    assert judged(rule, {"x": 0, "y": 1.0}, 10, a=0, b=1.05).verdict == HOLDS
    assert judged(rule, {"x": 1, "y": 1.0}, 10, a=1.01, b=1.05).verdict == DIFFERS


def test_all_and_each_of_the_comparisons() -> None:
    two = ("a.queue_ms > 1", "b.queue_ms > 1")

    def word(kind: str, a: float, b: float) -> str:
        rule = one_figure(kind, "a.queue_ms", comparisons=two, degree=False)
        return judged(rule, "more", claim=BECAUSE, a=a, b=b).verdict

    assert [word("all", *pair) for pair in ((2, 2), (2, 0), (0, 0))] == [HOLDS, WRONG, WRONG]
    assert [word("each", *pair) for pair in ((2, 2), (2, 0), (0, 0))] == [HOLDS, UNDECIDED, WRONG]


def test_draws_of_two_series_are_paired_by_number() -> None:
    rule = one_figure("each", "count(a-*.queue_ms)", comparisons=("a-*.queue_ms > b-*.queue_ms",))
    order = {"a_10": 11.0, "a_2": 3.0, "b_2": 2.0, "b_10": 10.0}
    assert judged(rule, "more", claim=BECAUSE, **order).verdict == HOLDS


def test_needs_happens_and_wrong_unless_come_first() -> None:
    needs = one_figure("within", needs={"a.queue_ms > 5": "only {a.queue_ms} ms"})
    finding = judged(needs, 1, a=2)
    assert (finding.verdict, finding.reason) == (NOT_JUDGED, "only 2 ms")
    happens = one_figure("within", happens={"drops": "b.queue_ms"})
    finding = judged(happens, 1, claim={"because_not": "no drop"}, a=1, b=0)
    assert (finding.verdict, finding.measured, finding.reason) == (WRONG, {"drops": 0}, "no drop")
    unless = one_figure("within", wrong_unless=("b.queue_ms == 1",))
    assert judged(unless, 1, a=1, b=0).verdict == WRONG
    assert judged(unless, 1, a=1, b=1).verdict == HOLDS


def test_other_words_where_a_rule_does_not_hold() -> None:
    by_source = one_figure("within", by_source={"": "19.3"})
    assert judged(by_source, 19.3, 1, a=85).verdict == BY_SOURCE
    assert judged(by_source, 20.3, 1, a=85).verdict == DIFFERS
    number = one_figure("within", right_number=("a.queue_ms > 5",))
    assert judged(number, 1, a=6).verdict == RIGHT_NUMBER
    factor = one_figure("within", factor="a.queue_ms / 4")
    assert judged(factor, 1, a=6).factor == 1.5


def test_shown_figures_are_not_judged() -> None:
    rule = one_figure("shown")
    because = {"because": "here {measured:3} ms"}
    finding = judged(rule, 1, claim=because, a=6)
    assert (finding.verdict, finding.measured) == (NOT_JUDGED, 6)
    finding = judged(rule, 1, claim={**because, "hardware": True}, a=6)
    assert (finding.verdict, finding.measured) == (HARDWARE, 6)
    assert finding.reason == "here 6.00 ms"


def test_computed_figures_are_predicted_and_not_measured() -> None:
    """An argument has a name; a figure that is not measured is not missing."""
    claim = BECAUSE | {"arguments": {"link_mbit": 40000}}
    rule = Rule(
        kind="all",
        predicted={"": "link_mbit * 0.2 / 8000"},
        comparisons=("abs(link_mbit * 0.2 / 8000 / expected - 1) <= allowed",),
    )
    finding = judged(rule, 1.0, 0.5, claim=claim, a=None)
    assert (finding.verdict, finding.measured, finding.predicted) == (HOLDS, None, 1.0)


def test_sentences_are_for_each_outcome() -> None:
    claim = {"because": "{within}, as said", "because_not": "{a.queue_ms} and {factor:.1f}"}
    told = judged(one_figure("within"), 4, 1, claim=claim, a=4).reason
    assert told == "equal to the article's 4 (1 % allowed), as said"
    told = judged(one_figure("within"), 4, 1, claim=claim, a=6).reason
    assert told == "6 and 1.5; 50.0 % above the article's 4 (1 % allowed)"


def test_partly_leaves_out_what_was_not_run() -> None:
    """The figure and the comparison of a condition without a value, and no others."""
    rule = Rule(
        kind="all",
        figures={"a": "a.queue_ms", "b": "b.queue_ms"},
        comparisons=("a.queue_ms > least", "b.queue_ms > least"),
        names={"half": "{expected a} / 2", "least": "half / 2"},
        partly=True,
        degree=False,
    )
    expected = {"a": 8.0, "b": 8.0}
    finding = judged(rule, expected, claim=BECAUSE, a=3.0, b=None)
    assert (finding.verdict, finding.measured, finding.judged) == (HOLDS, {"a": 3.0}, 1)
    assert judged(rule, expected, claim=BECAUSE, a=3.0, b=1.0).verdict == WRONG
