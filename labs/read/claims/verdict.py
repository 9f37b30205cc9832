"""What is said of a claim: a word, the figures that it rests on, and the witness.

Where two testbeds disagree, a verdict is disputed (`disputed`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from labs.read.claims.ledger import Article, Claim, Figure
from labs.read.display.format import figures_in_words
from labs.read.stats.testbed_comparison import DISAGREE, ConditionComparison, facts, in_words

HOLDS = "holds"
DIFFERS = "differs"
WRONG = "wrong"
HARDWARE = "hardware"
NOT_JUDGED = "not judged"
DISPUTED = "disputed"
"""Two witnesses part on it: never what one judging function says, so none of `WORDS`."""
HELD_UNTIL = "held until kernel"

NO_WORD = (NOT_JUDGED, HARDWARE)
WORDS = (HOLDS, DIFFERS, WRONG, HARDWARE, NOT_JUDGED)
_HELD = re.compile(rf"{HELD_UNTIL} \d{{1,4}}\.\d{{1,4}}", re.ASCII)


def held_until(series: str) -> str:
    """The verdict on what was so up to a kernel series: `held until kernel 6.5`."""
    return f"{HELD_UNTIL} {series}"


@dataclass(frozen=True)
class Witness:
    """What the verdict rests on: the testbed and the kernel of the runs."""

    testbed: str
    kernel: str

    def __str__(self) -> str:
        return f"{self.testbed} · Linux {self.kernel}" if self.kernel else self.testbed


ARITHMETIC = Witness("arithmetic", "")
"""For what is computed, and no run is needed for."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a judging function says: the word, why, and the figures.

    `factor` is how many times the article's figure was measured, for `differs` alone. ValueError
    for a word that there is not, or one without its reason or its factor: a mistake in the code.
    """

    verdict: str
    reason: str
    measured: Figure | None = None
    predicted: Figure | None = None
    factor: float | None = None
    witness: Witness | None = None

    def __post_init__(self) -> None:
        if self.verdict not in WORDS and not _HELD.fullmatch(self.verdict):
            raise ValueError(f"{self.verdict!r} is not a verdict")
        if not self.reason:
            raise ValueError(f"a verdict needs its reason: {self.verdict}")
        if (self.factor is None) == (self.verdict == DIFFERS):
            raise ValueError(f"a factor goes with {DIFFERS!r}, and only with it: {self.verdict}")


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A claim of an article and what the runs say of it.

    `expected` is the article's figure, `predicted` the theory's, `measured` the runs', all in
    `unit`; None where there is none. `witness` is None if there was no run to look at.
    `tolerance_pct` is how far a figure may lie from the article's, and `tolerance_reason` why.
    """

    id: str
    statement: str
    expected: Figure
    unit: str
    tolerance_pct: float | None
    tolerance_reason: str
    predicted: Figure | None
    measured: Figure | None
    verdict: str
    factor: float | None
    reason: str
    witness: Witness | None

    @property
    def words(self) -> str:
        """The verdict with its factor: `differs (factor 1.24)`."""
        return (
            self.verdict if self.factor is None else (f"{self.verdict} (factor {self.factor:.2f})")
        )

    def as_json(self) -> dict[str, Any]:
        """The verdict as plain data."""
        return asdict(self)


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
