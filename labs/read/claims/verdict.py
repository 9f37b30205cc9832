"""The verdict on a claim: a word, the figures that it is based on, and the witness.

Where two testbeds disagree, a verdict is disputed; where they agree, it has two witnesses
(`by_both`). Where kernels differ, it says what holds on which kernel (`by_kernel`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from labs.read.claims.ledger import Article, Claim, Figure
from labs.read.display.format import figures_in_words
from labs.read.stats.testbed_comparison import DISAGREE, ConditionComparison, facts, in_words
from labs.read.theory.windows import series

HOLDS = "holds"
DIFFERS = "differs"
WRONG = "wrong"
RIGHT_NUMBER = "right number, wrong reason"
HARDWARE = "hardware"
NOT_JUDGED = "not judged"
DISPUTED = "disputed"
"""Two witnesses disagree: never what one judging function says, so none of `WORDS`."""

NO_WORD = (NOT_JUDGED, HARDWARE)
WORDS = (HOLDS, DIFFERS, WRONG, RIGHT_NUMBER, HARDWARE, NOT_JUDGED)
NOT = (DIFFERS, WRONG)
"""For one kernel, these read `not` if the claim holds on another kernel."""
UNKNOWN_CAUSE = "Testbed and kernel differ, and these runs do not show which of them is the cause"


@dataclass(frozen=True)
class Witness:
    """What a verdict is based on: the testbed and the kernel of the runs."""

    testbed: str
    kernel: str

    def __str__(self) -> str:
        return f"{self.testbed} · Linux {self.kernel}" if self.kernel else self.testbed


AND = ", "
"""Separates the testbeds, or the kernels, of a joint witness."""

ARITHMETIC = Witness("arithmetic", "")
"""For what is computed without runs."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of a judging function: the word, the reason, and the figures.

    `factor` is the measured figure divided by the article's, only for `differs`. `judged` is
    the number of the claim's figures that were judged, if not all of them. ValueError for an
    unknown word, or one without its reason or its factor: a mistake in the code.
    """

    verdict: str
    reason: str
    measured: Figure | None = None
    predicted: Figure | None = None
    factor: float | None = None
    judged: int | None = None
    witness: Witness | None = None

    def __post_init__(self) -> None:
        if self.verdict not in WORDS:
            raise ValueError(f"{self.verdict!r} is not a verdict")
        if not self.reason:
            raise ValueError(f"a verdict needs its reason: {self.verdict}")
        if (self.factor is None) == (self.verdict == DIFFERS):
            raise ValueError(f"a factor goes with {DIFFERS!r}, and only with it: {self.verdict}")


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A claim of an article, and the verdict of the runs on it.

    `expected` is the article's figure, `predicted` the theory's, `measured` the runs', all in
    `unit`; None where there is none. `witness` is None if there was no run to judge.
    `tolerance_pct` is how far a figure may deviate from the article's, and `tolerance_reason` why.
    `conditions` and `link` say which runs were judged; `judged` is how many of the article's
    `figures` were judged.
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
    conditions: str
    link: str
    figures: int
    judged: int
    witness: Witness | None

    @property
    def words(self) -> str:
        """The verdict with its factor: `differs (factor 1.24)`."""
        return (
            self.verdict if self.factor is None else (f"{self.verdict} (factor {self.factor:.2f})")
        )

    @property
    def is_known(self) -> bool:
        """Whether it is informative: a verdict, or a measured figure of hardware."""
        return self.verdict not in NO_WORD or (
            self.verdict == HARDWARE and self.measured is not None
        )

    @property
    def basis(self) -> str:
        """What was judged: conditions and link, and how many of the article's figures."""
        where = "; ".join(filter(None, (self.conditions, self.link)))
        several = f"{self.judged} of {self.figures} figures" if self.figures > 1 else ""
        return ". ".join(filter(None, (where, several)))

    @property
    def tolerance(self) -> str:
        """The tolerance with its reason; empty where nothing is compared within one."""
        if self.tolerance_pct is None:
            return ""
        return f"{self.tolerance_pct:g} %: {self.tolerance_reason}"

    def as_json(self) -> dict[str, Any]:
        """The verdict as plain data."""
        return asdict(self)


def by_kernel(
    article: Article, found: Iterable[Verdict], *on_others: Iterable[Verdict]
) -> tuple[Verdict, ...]:
    """The verdicts on each claim from the runs of several kernels, as one verdict.

    The figures are those of the first kernel that judges the claim. Where the kernels differ, the
    verdict says what holds on which, and the claim's `changed` and `source` explain it.
    """
    return tuple(
        _on_every_kernel(article.claim(same_claim[0].id), same_claim)
        for same_claim in zip(found, *on_others, strict=True)
    )


def _on_every_kernel(claim: Claim, every: Sequence[Verdict]) -> Verdict:
    known = [one for one in every if one.verdict not in NO_WORD and one.witness is not None]
    of_series = {_series(one): one for one in reversed(known)}
    if len(of_series) < 2:
        return known[0] if known else every[0]
    first, in_order = known[0], [of_series[name] for name in sorted(of_series, key=series)]
    witnesses = [one.witness for one in in_order if one.witness is not None]
    together = _together(witnesses)
    if len({one.verdict for one in in_order}) == 1:
        return replace(first, witness=together)
    cause = f"{claim.changed} ({claim.source})" if claim.changed else ""
    if cause or _on_one_testbed(in_order):
        where, names = "Linux ", [_series(one) for one in in_order]
        said = [f"Linux {one.kernel}" for one in witnesses]
    else:
        where, cause = "", UNKNOWN_CAUSE
        pairs = zip(in_order, witnesses, strict=True)
        names = [f"{witness.testbed} (Linux {_series(one)})" for one, witness in pairs]
        said = [str(one) for one in witnesses]
    told = [f"{name}: {_with_figure(one)}" for name, one in zip(said, in_order, strict=True)]
    words = {name: one.verdict for name, one in zip(names, in_order, strict=True)}
    return replace(
        first,
        verdict=_on_each(where, words),
        factor=None,
        reason=". ".join([*told, cause] if cause else told),
        witness=together,
    )


def _series(one: Verdict) -> str:
    """The series of a verdict's kernel: `6.1`; 0.0 for one that is computed without a kernel."""
    assert one.witness is not None
    return ".".join(map(str, series(one.witness.kernel or "0.0")))


def _on_one_testbed(verdicts: Iterable[Verdict]) -> bool:
    """Whether one testbed has given each of the verdicts, so that the kernel is the difference."""
    testbeds: dict[str, set[str]] = {}
    for one in verdicts:
        if one.witness is not None:
            testbeds.setdefault(one.verdict, set()).update(one.witness.testbed.split(AND))
    return bool(set.intersection(*testbeds.values()))


def _on_each(where: str, words: Mapping[str, str]) -> str:
    """Each word with the kernels to which it applies: `holds on Linux 6.1, not on 6.12`; or with
    testbeds and kernels: `holds on vagrant (Linux 6.1), not on namespaces (Linux 6.18)`."""
    together: dict[str, list[str]] = {}
    for name, word in words.items():
        said = "not" if word in NOT and HOLDS in words.values() else word
        together.setdefault(said, []).append(name)
    ordered = sorted(together.items(), key=lambda item: item[0] == "not")
    first, *others = [(word, ", ".join(names)) for word, names in ordered]
    return ", ".join(
        [f"{first[0]} on {where}{first[1]}", *(f"{word} on {names}" for word, names in others)]
    )


def _with_figure(one: Verdict) -> str:
    """The reason of a verdict, after its figure if that is a single number."""
    if not isinstance(one.measured, int | float):
        return one.reason
    return f"{figures_in_words(one.measured)} {one.unit}, {one.reason}"


def on_another_kernel(one: Verdict, other: Verdict) -> bool:
    """Whether two verdicts are of kernels of different series, so that both may be right."""
    if HARDWARE in (one.verdict, other.verdict) or one.witness is None or other.witness is None:
        return False
    return _series(one) != _series(other)


def by_both(
    article: Article,
    first: Iterable[Verdict],
    second: Iterable[Verdict],
    comparisons: Iterable[ConditionComparison],
) -> tuple[Verdict, ...]:
    """The first testbed's verdicts with both witnesses where the second has the same; those that
    the second contradicts are disputed.

    It does where both judge a claim on the same kernel series and their verdicts differ, or one has
    more than the article and the other less; and where the testbeds disagree on a condition of the
    claim. The reason is the one that was measured. On another series the verdict says what holds on
    which. A claim that the first cannot judge is judged by the second.
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
    if one.verdict == HARDWARE and other is not None and other.verdict == HARDWARE:
        return _beside(one, other)
    if one.verdict == NOT_JUDGED and other is not None and other.verdict not in NO_WORD:
        return _of_both(claim, other, one, rows)
    if one.verdict in NO_WORD:
        return one if other is None or one.verdict == HARDWARE else _both_undecided(one, other)
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
        other is not None
        and other.verdict not in NO_WORD
        and (other.verdict != one.verdict or _differ_in_opposite_ways(one, other))
    )
    if not reasons and other is not None and contradicts and on_another_kernel(one, other):
        return _on_every_kernel(claim, [one, other])
    if not reasons and not contradicts:
        return one if other is None or other.verdict in NO_WORD else _agreed(one, other)
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


def _differ_in_opposite_ways(one: Verdict, other: Verdict) -> bool:
    """Whether one of two figures is above the article's and the other below it."""
    if one.factor is None or other.factor is None:
        return False
    return (one.factor > 1) != (other.factor > 1)


def _agreed(one: Verdict, other: Verdict) -> Verdict:
    """The same verdict from two testbeds, with the figure and the link of the other as well."""
    if other.witness == one.witness:
        return one  # computed without runs
    same = other.measured is None or other.measured == one.measured
    measured = " the same" if same else f" measured {figures_in_words(other.measured)}"
    link = one.link
    if other.link != one.link and one.witness and other.witness:
        link = f"{one.link} ({one.witness.testbed}); {other.link} ({other.witness.testbed})"
    return replace(
        one,
        reason=f"{one.reason}; {other.witness}:{measured}",
        link=link,
        witness=_together([found for found in (one.witness, other.witness) if found is not None]),
    )


def _beside(one: Verdict, other: Verdict) -> Verdict:
    """A figure of the author's machine on two testbeds: both figures, both reasons."""
    if not other.is_known:
        return one
    if not one.is_known:
        return other
    together = _agreed(one, other)
    if other.reason in one.reason:
        return together
    return replace(together, reason=f"{together.reason}, {other.reason}")


def _both_undecided(one: Verdict, other: Verdict) -> Verdict:
    """A claim that neither testbed could judge: with the figures that could not decide it."""
    if one.measured is None and other.measured is not None:
        return other
    if other.measured is None or one.witness == other.witness:
        return one
    together = _together([found for found in (one.witness, other.witness) if found is not None])
    reason = f"{one.witness}: {one.reason}. {other.witness}: {other.reason}"
    return replace(one, reason=reason, witness=together)


def _measured(row: ConditionComparison) -> str:
    """What may explain that the figures of a condition are close, but not the same."""
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
            AND.join(dict.fromkeys(getattr(one, part) for one in witnesses))
            for part in ("testbed", "kernel")
        )
    )
