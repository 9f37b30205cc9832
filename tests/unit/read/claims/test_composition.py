"""Verdicts of several kernels, testbeds and draws as one, and what moved between two."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from labs.errors import BadInput, Damaged
from labs.experiments.buffers.results import article
from labs.read.claims.composition import UNKNOWN_CAUSE, composed, noted_once, of_draws
from labs.read.claims.moved import compare_verdicts, read_verdicts
from labs.read.claims.verdict import (
    DIFFERS,
    DISPUTED,
    FEWEST_DRAWS,
    HARDWARE,
    HOLDS,
    MORE,
    NOT_JUDGED,
    RIGHT_NUMBER,
    UNDECIDED,
    WRONG,
    Draws,
    Verdict,
    Witness,
    in_few_words,
)
from labs.read.stats.testbed_comparison import ConditionComparison, compare_testbeds
from tests.made_verdicts import verdict
from tests.real_runs import real_study
from tests.repeated_runs import repetitions

LEDGER = article()
CLAIM = LEDGER.claims[1]
KERNELS = ("6.1.1", "6.6.1", "6.12.1")
CLOSE = (0.97, 0.98, 0.99, 1.0, 1.01)
SLOW = (0.68, 0.69, 0.7, 0.71, 0.72)
WIDE = (0.85, 0.9, 0.95, 1.0, 1.05)


def on(kernel: str, word: str, testbed: str = "virtual", **changed: Any) -> Verdict:
    return verdict(
        **{
            "verdict": word,
            "factor": 1.5 if word == DIFFERS else None,
            "witness": Witness(testbed, kernel),
            "reason": f"found on {kernel}",
            **changed,
        }
    )


def beside(*found: Verdict, rows: Sequence[ConditionComparison] = ()) -> Verdict:
    """The verdict of all, which must be the same in each order."""
    every = {composed(CLAIM, some, lambda one, other: rows) for some in permutations(found)}
    (one,) = every
    return one


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
def test_composed_of_three_kernels(words: tuple[str, ...], said: str) -> None:
    found = beside(*(on(kernel, word) for kernel, word in zip(KERNELS, words, strict=True)))
    assert found.verdict == said


def test_composed_has_a_part_for_each_set_of_kernels_and_one_note() -> None:
    claim = dataclasses.replace(CLAIM, changed="From 6.6 on it is slow", source="x")
    kernels = [
        on("6.12.1", WRONG, measured=90.0),
        on("6.1.1", HOLDS),
        on("7.2.1", WRONG, measured=91.0),
    ]
    for some in permutations(kernels):
        found = composed(claim, some, lambda one, other: ())
        assert [(part.words, part.measured) for part in found.parts] == [
            ("holds on Linux 6.1", 114.0),
            ("wrong on Linux 6.12, 7.2", 90.0),
        ]
        assert [part.because for part in found.parts] == ["found on 6.1.1", claim.changed]
        assert "".join(found.evidence).count(claim.changed) == 1
        assert found.witness == Witness("virtual", "6.1.1, 6.12.1, 7.2.1")


def test_composed_never_merges_kernels_with_other_figures() -> None:
    kernels = [
        on("5.10.1", HOLDS, measured=14.9, expected=14.9),
        on("6.1.1", HOLDS, measured=15.1, expected=14.9),
        on("6.12.1", DIFFERS, factor=1.5, measured=22.3, expected=14.9),
        on("7.2.1", DIFFERS, factor=7.65, measured=114.0, expected=14.9),
    ]
    found = beside(*kernels)
    assert found.verdict == "holds on Linux 5.10, 6.1, not on 6.12, 7.2"
    assert [(part.where, part.measured) for part in found.parts] == [
        ("Linux 5.10, 6.1", 15.1),
        ("Linux 6.12", 22.3),
        ("Linux 7.2", 114.0),
    ]
    holds = [on("6.1.1", HOLDS, measured=8.0), on("6.12.1", HOLDS, measured=13.5)]
    found = beside(*(dataclasses.replace(one, expected=15.0) for one in holds))
    assert (found.verdict, len(found.parts)) == (HOLDS, 2)
    near_0 = [on(one, HOLDS, measured=x) for one, x in (("6.1.1", -0.08), ("6.12.1", -0.01))]
    assert beside(*(dataclasses.replace(one, expected=0.0) for one in near_0)).parts == ()


def test_composed_of_several_figures_compares_each() -> None:
    for figure, parts in ((43, 0), (1, 2)):
        named = [
            on("6.1.1", HOLDS, measured={"lost": 43, "kept": 7}),
            on("7.2.1", HOLDS, measured={"lost": figure, "kept": 7}),
        ]
        found = composed(CLAIM, named, lambda one, other: ())
        assert len(found.parts) == parts


def drawn(kernel: str, *figures: float, limit: float = 0.75) -> Verdict:
    """A claim that a ratio is at least the limit, judged by a draw for each figure."""
    found = [
        on(kernel, HOLDS if one >= limit else DIFFERS, measured=one, expected=1.0)
        for one in figures
    ]
    return of_draws(found, range(1, len(figures) + 1), "competing flows")


@pytest.mark.parametrize(
    ("on_6_1", "on_6_12", "said", "counts", "own"),
    [
        ((0.79, 0.76, 0.8, 0.81, 0.77), (0.78, 0.8, 0.76, 0.9, 0.8), HOLDS, [10], [HOLDS] * 2),
        (
            (0.79, 0.738, 0.8, 0.81, 0.755),
            (0.78, 0.8, 0.76, 0.9, 0.8),
            UNDECIDED,
            [10],
            [UNDECIDED, HOLDS],
        ),
        ((0.5, 0.51, 0.52, 0.5, 0.5), (0.6, 0.61, 0.6, 0.62, 0.6), DIFFERS, [5, 5], [DIFFERS] * 2),
        (
            (0.79, 0.76, 0.8, 0.81, 0.77),
            (0.5, 0.51, 0.52, 0.5, 0.5),
            "holds on Linux 6.1, not on 6.12",
            [5, 5],
            [HOLDS, DIFFERS],
        ),
        (
            (0.79, 0.76, 0.8, 0.81, 0.77),
            (0.5, 0.51, 0.74, 0.75, 0.5),
            "holds on Linux 6.1, undecided on 6.12",
            [5, 5],
            [HOLDS, UNDECIDED],
        ),
    ],
)
def test_composed_of_draws_joins_kernels_whose_ranges_overlap(
    on_6_1: Sequence[float], on_6_12: Sequence[float], said: str, counts: list[int], own: list[str]
) -> None:
    both = [drawn("6.1.1", *on_6_1), drawn("6.12.1", *on_6_12)]
    for some in permutations(both):
        found = composed(CLAIM, some, lambda one, other: ())
        assert found.verdict == said
        assert [one.draws and one.draws.count for one in found.rows] == counts
        assert [one.verdict for one in found.single] == own  # in a group, each keeps its own
        assert [one["verdict"] for one in found.as_json()["witnesses"]] == own


def test_composed_of_draws_joins_no_chain_of_ranges() -> None:
    low, middle, high = (
        drawn(kernel, *(start + step / 100 for step in range(5)))
        for kernel, start in zip(KERNELS, (0.76, 0.79, 0.82), strict=True)
    )
    for some in permutations((low, middle, high)):
        found = composed(CLAIM, some, lambda one, other: ())
        assert [(one.where, one.draws and one.draws.count) for one in found.rows] == [
            ("Linux 6.1, 6.6", 10),
            ("Linux 6.12", 5),
        ]


def test_of_draws_has_the_median_and_the_range() -> None:
    found = drawn("6.1.1", 0.792, 0.738, 0.798, 0.813, 0.755)
    assert (found.verdict, found.measured, found.factor) == (UNDECIDED, 0.792, None)
    assert found.draws == Draws(5, 0.738, 0.813, (1, 2, 3, 4, 5))
    assert found.measured_in_words == "0.792 (0.738 to 0.813, 5 draws)"
    said = found.as_json()
    assert said["draws"] == {"count": 5, "low": 0.738, "high": 0.813, "seeds": (1, 2, 3, 4, 5)}
    assert said["chance"] == "competing flows"
    few = drawn("6.1.1", 0.79, 0.8, 0.81, 0.82)
    assert (few.verdict, few.measured, few.judged) == (NOT_JUDGED, 0.805, 0)
    assert "labs claims --id A1.2 --seeds 5" in few.reason
    none = drawn("6.1.1", 0.5, 0.6, 0.6, 0.7, 0.7)
    assert (none.verdict, none.factor) == (DIFFERS, 1.5)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([HOLDS] * 4 + [NOT_JUDGED], NOT_JUDGED),
        ([HOLDS] * 5, HOLDS),
        ([HOLDS] * 5 + [NOT_JUDGED] * 3, UNDECIDED),
        ([HOLDS] * 5 + [UNDECIDED], UNDECIDED),
        ([DIFFERS] * 5 + [NOT_JUDGED], UNDECIDED),
        ([DIFFERS] * 5 + [UNDECIDED], UNDECIDED),
        ([DIFFERS] * 3 + [WRONG] * 2, DIFFERS),
        ([UNDECIDED] * 5, UNDECIDED),
        ([NOT_JUDGED] * 5, NOT_JUDGED),
    ],
)
def test_of_draws_counts_those_that_are_not_judged(words: list[str], said: str) -> None:
    found = of_draws([on("6.1.1", one) for one in words], range(len(words)), "random loss")
    judged = sum(one != NOT_JUDGED for one in words)
    assert found.verdict == said
    assert (found.draws.count if found.draws else 0) == judged
    if FEWEST_DRAWS <= judged < len(words):
        assert f"{len(words)} draws" in found.reason
        assert f"{len(words) - judged} of them not judged" in found.reason


def test_a_kernel_with_draws_that_are_not_judged_keeps_its_group_from_holding() -> None:
    figures = [0.76, 0.77, 0.78, 0.79, 0.8]
    lacking = [*(on("6.6.1", HOLDS, measured=one) for one in figures), on("6.6.1", NOT_JUDGED)]
    both = [drawn("6.1.1", *figures), of_draws(lacking, range(6), "competing flows")]
    found = composed(CLAIM, both, lambda one, other: ())
    assert (found.verdict, found.draws and found.draws.count) == (UNDECIDED, 10)
    assert [one.verdict for one in found.single] == [HOLDS, UNDECIDED]


def test_composed_of_kernels_that_differ_by_other_factors() -> None:
    kernels = [
        on("6.1.1", DIFFERS, factor=0.92, measured=46.0),
        on("6.12.1", DIFFERS, factor=0.75, measured=37.5),
        on("7.2.1", DIFFERS, factor=0.76, measured=38.0),
    ]
    for some in permutations(kernels):
        found = beside(*some)
        assert (found.verdict, found.factor, found.measured) == (DIFFERS, None, 46.0)
        assert [(part.words, part.measured) for part in found.parts] == [
            ("differs (factor 0.92) on Linux 6.1", 46.0),
            ("differs (factor 0.75) on Linux 6.12, 7.2", 37.5),
        ]
    assert beside(*kernels[1:]).parts == ()
    elsewhere = on("6.18.4", DIFFERS, "namespaces", factor=0.5)
    assert beside(kernels[0], elsewhere).parts == ()  # the kernel may not be the cause


def test_composed_of_one_verdict_on_two_testbeds() -> None:
    other = on("6.1.0-49", HOLDS, "vagrant", measured=113.0, link="200 Mbit/s")
    found = beside(other, on("6.1.1", HOLDS))
    assert (found.verdict, found.measured) == (HOLDS, 114.0)
    assert found.witness == Witness("virtual, vagrant", "6.1.1, 6.1.0-49")
    assert "vagrant · Linux 6.1.0-49: 113 (MiB/s): found on 6.1.0-49" in found.evidence
    assert found.evidence[2:4] == (
        "Judged on: shaped; 1000 Mbit/s",
        "Judged on: shaped; 200 Mbit/s",
    )


def test_composed_of_three_testbeds_and_kernels_side_by_side() -> None:
    """The namespaces of a machine with a newer kernel are no witness against the older one."""
    found = beside(
        on("6.1.1", HOLDS), on("6.1.0-49", HOLDS, "vagrant"), on("6.18.4", WRONG, "namespaces")
    )
    assert found.verdict == (
        "holds on virtual, vagrant (Linux 6.1), not on namespaces (Linux 6.18)"
    )
    assert found.evidence[-1] == UNKNOWN_CAUSE
    with_cause = beside(on("6.1.1", HOLDS), on("6.18.1", WRONG), on("6.18.4", WRONG, "namespaces"))
    assert with_cause.verdict == "holds on Linux 6.1, not on 6.18"
    assert with_cause.parts[1].testbeds == ("virtual", "namespaces")


def test_composed_of_figures_of_hardware_and_of_what_is_not_judged() -> None:
    machines = on("6.1.0", HARDWARE, "vagrant", measured=95.0, reason="a late shaper")
    both = beside(on("6.1.1", HARDWARE), machines)
    assert (both.verdict, both.measured) == (HARDWARE, 114.0)
    assert "vagrant · Linux 6.1.0: 95 (MiB/s): a late shaper" in both.evidence
    lacking = beside(on("6.1.1", HARDWARE, measured=None), machines)
    assert (lacking.measured, len(lacking.witnesses)) == (95.0, 2)
    unjudged = on("6.1.1", NOT_JUDGED, measured=None)
    assert beside(unjudged, on("6.1.0", HOLDS, "vagrant")).verdict == HOLDS
    undecided = on("6.1.0", NOT_JUDGED, "vagrant")
    assert beside(unjudged, undecided) == undecided
    assert beside(unjudged, on("6.12.1", NOT_JUDGED, measured=None)) == unjudged


def compared(folder: Path, speeds: Sequence[float]) -> Sequence[ConditionComparison]:
    """The rows that `labs runs compare` has for a condition on two testbeds."""
    study = real_study("6.1")
    runs = repetitions(folder, study.run("default"), speeds)
    return compare_testbeds(study.lab, study.every, runs)


@pytest.mark.parametrize(
    ("speeds", "words", "said"),
    [
        (CLOSE, (HOLDS, HOLDS), HOLDS),
        (CLOSE, (HOLDS, DIFFERS), HOLDS),  # within the margin: as compare says
        (SLOW, (HOLDS, HOLDS), DISPUTED),  # beyond the margin: as compare says
        (SLOW, (HOLDS, DIFFERS), DISPUTED),
        (WIDE, (HOLDS, HOLDS), HOLDS),  # undecided is not disagreement
        (WIDE, (HOLDS, DIFFERS), DISPUTED),  # and not agreement
        (None, (HOLDS, HOLDS), HOLDS),
        (None, (HOLDS, WRONG), DISPUTED),
    ],
)
def test_composed_of_two_testbeds_follows_their_comparison(
    speeds: Sequence[float] | None, words: tuple[str, str], said: str, tmp_path: Path
) -> None:
    rows = compared(tmp_path, speeds) if speeds else ()
    first, second = on("6.1.1", words[0]), on("6.1.0", words[1], "vagrant")
    found = beside(first, second, rows=rows)
    assert found.verdict == said
    assert found.witness == Witness("virtual, vagrant", "6.1.1, 6.1.0")
    assert (len(found.witnesses), found.parts) == (2, ())
    if said == DISPUTED and speeds == SLOW:
        assert "ratio 0.70 (0.68 to 0.72): no measurement explains it" in found.evidence[0]


def test_composed_of_figures_on_both_sides_of_the_article_s_is_disputed() -> None:
    above = on("6.1.1", DIFFERS)
    for factor, said in ((0.5, DISPUTED), (1.4, DIFFERS)):
        assert beside(above, on("6.1.0", DIFFERS, "vagrant", factor=factor)).verdict == said


def test_noted_once_has_the_title_of_a_commit_once() -> None:
    source = "kernel commit dfa2f0483360, tcp: get rid of sysctl_tcp_adv_win_scale"
    claim = dataclasses.replace(CLAIM, changed="Since 6.6 it is measured", source=source)
    several = [
        composed(claim, [on("6.1.1", HOLDS), on("6.12.1", WRONG)], lambda one, other: ())
        for _ in range(3)
    ]
    told = [" ".join(one.evidence) for one in noted_once(several, set())]
    assert [text.count("get rid of") for text in told] == [1, 0, 0]
    assert all("dfa2f0483360" in text and claim.changed in text for text in told)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a b; c d. e f", "a b; c d. e f"),
        ("one two three; four five. six seven", "one two three; four five"),
        ("one two three four, five six seven", f"one two three four {MORE}"),
        ("one two three four (five six seven)", f"one two three four {MORE}"),
        ("1 2 3 4 5 6 7 8", f"1 2 3 4 5 {MORE}"),
    ],
)
def test_in_few_words(text: str, said: str) -> None:
    assert in_few_words(text, 6) == said


def witness(**changed: Any) -> dict[str, Any]:
    runs = {"conditions": {"wmem": "aa"}, "kernels": ["k"], "code": ["c"], "tools": ["t"]}
    said = {"testbed": "virtual", "kernel": "6.1.192", "verdict": "holds", "measured": 10.0}
    return {**said, "runs": {**runs, **changed.pop("runs", {})}, **changed}


def claim(*witnesses: dict[str, Any], **changed: Any) -> dict[str, Any]:
    said = {"id": "A1.7", "verdict": "holds", "unit": "MiB/s", "expected": 10, "measured": 10.0}
    return {**said, "tolerance_pct": 5.0, "witnesses": list(witnesses), **changed}


def test_compare_verdicts_of_equal_sides() -> None:
    found = compare_verdicts([claim(witness())], [claim(witness())])
    assert (found.moved, found.other_figures, found.compared) == ((), (), 1)


def test_compare_verdicts_names_runs_and_inputs_that_differ() -> None:
    other = {"conditions": {"wmem": "bb"}, "kernels": ["l"]}
    new = claim(
        witness(kernel="6.1.200", verdict="differs", measured=15.0, runs=other), verdict="differs"
    )
    (moved,) = compare_verdicts([claim(witness())], [new]).moved
    (one,) = moved.witnesses
    assert moved.verdicts == ("holds", "differs")
    assert (one.runs, one.inputs) == (("wmem",), ("kernel builds",))
    assert one.kernels == ("6.1.192", "6.1.200")
    assert one.percent == pytest.approx(50)
    assert "measured 10 -> 15 (MiB/s, +50 %)" in " ".join(moved.lines())


def test_compare_verdicts_finds_one_kernel_that_moved_under_an_equal_verdict() -> None:
    new = claim(witness(), witness(kernel="6.12.1", verdict="differs"))
    old = claim(witness(), witness(kernel="6.12.1", verdict="wrong"))
    (moved,) = compare_verdicts([old], [new]).moved
    assert [one.kernels for one in moved.witnesses] == [("6.12.1", "6.12.1")]


def test_compare_verdicts_of_the_same_runs_names_the_claim_or_the_code() -> None:
    new = claim(witness(verdict="differs"), verdict="differs")
    (by_code,) = compare_verdicts([claim(witness())], [new]).moved
    assert by_code.claim == {} and "code" in by_code.reason
    (by_claim,) = compare_verdicts([claim(witness(), tolerance_pct=9.0)], [new]).moved
    assert by_claim.claim == {"tolerance_pct": (9.0, 5.0)}


def test_compare_verdicts_counts_claims_of_one_side_and_other_figures() -> None:
    old = [claim(witness()), claim(witness(), id="A1.8")]
    new = [claim(witness(measured=11.0)), claim(witness(), id="A1.9")]
    found = compare_verdicts(old, new)
    assert [(one.id, one.verdicts) for one in found.moved] == [
        ("A1.9", (None, "holds")),
        ("A1.8", ("holds", None)),
    ]
    assert found.other_figures == ("A1.7",)


def test_compare_verdicts_without_witnesses() -> None:
    """As an earlier version printed them."""
    old = {"id": "A1.7", "verdict": "wrong"}
    (moved,) = compare_verdicts([old], [claim(witness())]).moved
    assert moved.verdicts == ("wrong", "holds")


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "[1]", '[{"id": "A1.7"}]', '[{"id": "<b>", "verdict": "holds"}]', "[NaN]"),
        '[{"id": "A1.7", "verdict": "holds", "witnesses": [{"testbed": "virtual"}]}]',
        json.dumps([claim(witness(kernel="x"))]),
        json.dumps([claim(witness(runs={"conditions": []}))]),
        "[" * 100_000,
    ],
)
def test_read_verdicts_refuses_what_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "old.json"
    path.write_text(text)
    with pytest.raises(Damaged):
        read_verdicts(path)


def test_read_verdicts_of_no_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        read_verdicts(tmp_path / "old.json")
