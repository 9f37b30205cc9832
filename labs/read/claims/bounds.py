"""Judging functions that several labs use: limits, and ratios of two conditions.

Each takes the column from the claim's `arguments`. A limit that is missed by no more than the
tolerance holds.
"""

from __future__ import annotations

from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import not_judged
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import DIFFERS, HOLDS, Finding
from labs.read.display.format import in_digits


def figure(claim: Claim, seen: Evidence, condition: str) -> float | None:
    """The claim's column in the results of a condition."""
    value = seen.row(condition)[str(claim.arguments["column"])]
    return None if value is None else float(value)


def limited(claim: Claim, measured: float | None, *, above: bool, reason: str = "") -> Finding:
    """The finding for a figure that should not be above the article's, or not below it."""
    if measured is None:
        return not_judged(f"the run has no {claim.arguments.get('column', 'figure')}")
    limit = claim.figure * claim.factors[above]
    holds = measured <= limit if above else measured >= limit
    word = "at most" if above else "at least"
    said = f"{in_digits(measured)}; {word} {in_digits(limit)} allowed"
    return Finding(
        verdict=HOLDS if holds else DIFFERS,
        measured=measured,
        factor=None if holds else measured / claim.figure,
        reason=f"{said}{f'; {reason}' if reason else ''}",
    )


def at_most(claim: Claim, seen: Evidence) -> Finding:
    """Whether a column is at most the article's figure."""
    return limited(claim, figure(claim, seen, claim.conditions[0]), above=True)


def at_least(claim: Claim, seen: Evidence) -> Finding:
    """Whether a column is at least the article's figure."""
    return limited(claim, figure(claim, seen, claim.conditions[0]), above=False)


def ratio_at_least(claim: Claim, seen: Evidence) -> Finding:
    """Whether a column of the first condition is at least so many times that of the second."""
    over, under = (figure(claim, seen, name) for name in claim.conditions)
    if over is None or under is None:
        return not_judged("one of the runs lacks the figure")
    said = (
        f"{in_digits(over)} in {claim.conditions[0]}, {in_digits(under)} in {claim.conditions[1]}"
    )
    if over <= 0 and under <= 0:
        return not_judged("the figure of both runs is 0")
    if under <= 0:
        return Finding(verdict=HOLDS, reason=f"{said}: nothing to divide by")
    return limited(claim, over / under, above=False, reason=said)


def ratio(claim: Claim, seen: Evidence) -> Finding:
    """Whether the ratio of a column in two conditions is the article's, within the tolerance."""
    over, under = (figure(claim, seen, name) for name in claim.conditions)
    if over is None or under is None:
        return not_judged("one of the runs lacks the figure")
    said = (
        f"{in_digits(over)} in {claim.conditions[0]}, {in_digits(under)} in {claim.conditions[1]}"
    )
    if over <= 0 and under <= 0:
        return not_judged("the figure of both runs is 0")
    if under <= 0:
        return Finding(verdict=DIFFERS, reason=f"{said}: nothing to divide by")
    return within(claim, over / under, said)


def within(claim: Claim, measured: float, reason: str) -> Finding:
    """The finding for a figure that should be the article's, within the tolerance."""
    factor = measured / claim.figure
    least, most = claim.factors
    holds = least <= factor <= most
    return Finding(
        verdict=HOLDS if holds else DIFFERS,
        measured=measured,
        factor=None if holds else factor,
        reason=f"{reason}; {claim.allowed_in_words}",
    )
