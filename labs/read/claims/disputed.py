"""Verdicts from two testbeds: where these disagree, a verdict is disputed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from labs.read.claims.ledger import Article, Claim
from labs.read.claims.verdict import DISPUTED, HARDWARE, NOT_JUDGED, Verdict, Witness
from labs.read.display.format import figures_in_words
from labs.read.stats.testbed_comparison import DISAGREE, ConditionComparison, facts, in_words

NO_WORD = (NOT_JUDGED, HARDWARE)


def disputed(
    article: Article,
    first: Iterable[Verdict],
    second: Iterable[Verdict],
    comparisons: Iterable[ConditionComparison],
) -> tuple[Verdict, ...]:
    """The first testbed's verdicts; those that the second contradicts are disputed.

    It does where both judge a claim and their verdicts differ, and where the testbeds disagree on
    a condition of the claim. The reason is the one that was measured.
    """
    rows = tuple(comparisons)
    others = {verdict.id: verdict for verdict in second}
    return tuple(
        _of_both(article.claim(verdict.id), verdict, others.get(verdict.id), rows)
        for verdict in first
    )


def _of_both(
    claim: Claim, one: Verdict, other: Verdict | None, rows: Sequence[ConditionComparison]
) -> Verdict:
    if one.verdict in NO_WORD:
        return one
    looked_at = [
        row
        for row in rows
        if any(fnmatchcase(row.condition, pattern) for pattern in claim.conditions)
    ]
    reasons = [
        f"{row.condition} disagrees, ratio {_ratio(row)}: {row.because}"
        for row in looked_at
        if row.verdict == DISAGREE
    ]
    contradicts = (
        other is not None and other.verdict not in NO_WORD and other.verdict != one.verdict
    )
    if not reasons and not contradicts:
        return one
    if not reasons:
        reasons = [
            f"{row.condition}: ratio {_ratio(row)}: {_measured(row)}"
            for row in looked_at
            if row.ratio is not None
        ]
    if other is not None and other.verdict not in NO_WORD:
        reasons.insert(0, f"{_says(one)}; {_says(other)}")
    witnesses = [
        verdict.witness
        for verdict in (one, other)
        if verdict is not None and verdict.witness is not None
    ]
    return replace(
        one, verdict=DISPUTED, factor=None, reason="; ".join(reasons), witness=_together(witnesses)
    )


def _measured(row: ConditionComparison) -> str:
    """What may explain that the figures of a condition are not the same, though near."""
    return in_words(
        facts(row.first.lab, row.first.middle),
        facts(row.second.lab, row.second.middle),
        (row.margin.low, row.margin.high),
    )


def _ratio(row: ConditionComparison) -> str:
    assert row.ratio is not None
    return f"{row.ratio.middle:.2f} ({row.ratio.low:.2f} to {row.ratio.high:.2f})"


def _says(verdict: Verdict) -> str:
    measured = f", {figures_in_words(verdict.measured)}" if verdict.measured is not None else ""
    return f"{verdict.witness}: {verdict.words}{measured}"


def _together(witnesses: list[Witness]) -> Witness | None:
    if not witnesses:
        return None
    return Witness(
        *(
            ", ".join(dict.fromkeys(getattr(one, part) for one in witnesses))
            for part in ("testbed", "kernel")
        )
    )
