"""How a claim is judged: rules, formulas and verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isnan
from typing import Any

import pytest

from labs.catalog import find
from labs.errors import BadInput
from labs.read.claims.evidence import Evidence
from labs.read.claims.formulas import check, describe, parse
from labs.read.claims.judge import follow, judge, not_judged
from labs.read.claims.ledger import Claim, Rule
from labs.read.claims.verdict import (
    BY_SOURCE,
    DIFFERS,
    HARDWARE,
    HOLDS,
    NOT_JUDGED,
    RIGHT_NUMBER,
    UNDECIDED,
    WORDS,
    WRONG,
    Finding,
    Note,
    Witness,
    together,
)
from tests.made_verdicts import verdict
from tests.real_runs import real_study

STUDY = real_study("6.1")
SEEN = Evidence(STUDY.lab, {run.condition: run for run in STUDY.runs})


def claim(column: str | None = None, judged_by: str | None = None) -> Claim:
    return Claim(
        id="A1.1",
        statement="It is fast.",
        expected=1.0,
        unit="x",
        conditions=("default",),
        columns={"": column} if column else {},
        judge=judged_by,
    )


def test_follow_of_a_text_is_not_judged() -> None:
    assert follow(claim(column="kernel"), SEEN).verdict == NOT_JUDGED
    assert follow(claim(column="goodput_mib_s"), SEEN).verdict != NOT_JUDGED


def test_judge_reason_is_printable() -> None:
    """A reason may quote what a run says, such as its kernel's release name."""
    found = judge(
        claim(judged_by="odd"), SEEN, {"odd": lambda *_: not_judged("Linux 6.1\n\x1b[2J")}, {}
    )
    assert found.reason == r"Linux 6.1\n\x1b[2J"


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


CELLS: Mapping[str, Any] = {
    "a-1.x": 3,
    "a-1.0.x": 4,
    "a.none": None,
    "s-*.x": [1.0, 9.5, None, 10.0],
    "s-*.kib": [16, 64, 256, 1024],
    "t-*.x": [2.0, 1.0, 5.0, 4.0],
    "few-*.x": [1.0],
    "{with -k}": 90.0,
    "word": "reset by peer",
    "zero": 0,
    "flag": True,
}


def value(text: str) -> Any:
    return parse(text).value(CELLS.__getitem__)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("a-1.x + 2 * a-1.0.x", 11),
        ("(a-1.x + 2) * 2", 10),
        ("a-1.x > 2.5", True),
        ("{with -k} >= 90", True),
        ("a-1.x + a.none", None),
        ("max(s-*.x, 20)", 20),
        ("count(s-*.x)", 3),
        ("s-*.x > 5", [False, True, None, True]),
        ("highest(s-*.x, t-*.x)", [2.0, 9.5, None, 10.0]),
        ("s-*.x / few-*.x", None),
        ("reaches(0.95, s-*.x, s-*.kib)", 64),
        ("after(0.95, s-*.x, s-*.kib)", 9.5),
        ("farthest(2, 1.9, 2.5, 2)", 2.5),
        ("where(s-*.x, s-*.x > 5)", [None, 9.5, None, 10.0]),
        ("median(abs(t-*.x - 3))", 1.5),
        ("ceil(13 / 4)", 4),
        ("1 / zero", inf),
        ("125e-6 * 2", 0.00025),
        ("max(a.none)", None),
    ],
)
def test_formulas_compute(text: str, result: Any) -> None:
    assert value(text) == result


def test_nothing_divided_by_nothing_is_no_number() -> None:
    assert isnan(value("zero / zero"))


@pytest.mark.parametrize(
    "text", ["", "a.x +", "log(a.x)", "max()", "a.x > 1 > 0", "f'{a}'", "(" * 90, "a.x; b.x", "max"]
)
def test_formulas_refuse_anything_else(text: str) -> None:
    with pytest.raises(BadInput, match="is not a formula"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("{a-1.x:3} MiB/s", "3.00 MiB/s"),
        ("{1024 * a-1.x:size}", "3 KiB"),
        ("{with -k:.1f} %", "90.0 %"),
        ("{a-1.x:packets}", "3 packets"),
        ("{t-*.x:range}", "3 (1 to 5)"),
        ("{few-*.x:range}", "1"),
        ("{t-*.x}", "2, 1, 5, 4"),
        ("{a.none} and {word}", "unknown and reset by peer"),
        ("x[? and {a.none}][? or {a-1.x}][?, {zero} drops]", "x or 3"),
        ("tcp_rmem[1] is {flag}", "tcp_rmem[1] is yes"),
    ],
)
def test_sentences_are_filled_in_by_name(text: str, result: str) -> None:
    assert describe(text, CELLS.__getitem__) == result


def test_sentences_refuse_unknown_formats_and_single_braces() -> None:
    for text in ("{a.x:lots}", "{a.x:5}", "{a.x", "a.x}"):
        with pytest.raises(BadInput):
            list(check(text))


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
