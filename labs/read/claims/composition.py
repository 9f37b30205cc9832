"""One verdict on a claim from those of all testbeds and kernels, whatever their order.

Each testbed and kernel series is judged on its own. Testbeds on one series agree on a claim if
`labs runs compare` says so of its conditions (`testbed_comparison.grade`), or if their verdicts are
equal and it does not say that they disagree; otherwise the verdict is disputed. Where kernels
differ, by their word or by their figures, there is a part for each set of kernels that agree. Draws
of chance differ only where their ranges do not overlap; in a group, each range overlaps each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from labs.drive.kernel.versions import DEFAULT
from labs.drive.parameters.declare import TESTBEDS
from labs.read.claims.draws import pooled
from labs.read.claims.figures import alike, overlap
from labs.read.claims.ledger import Article, Claim
from labs.read.claims.verdict import (
    AND,
    BY_SOURCE,
    DIFFERS,
    DISPUTED,
    HARDWARE,
    HOLDS,
    NO_WORD,
    NOT_JUDGED,
    RIGHT_NUMBER,
    UNDECIDED,
    WRONG,
    Note,
    Verdict,
    Witness,
    together,
)
from labs.read.display.format import figures_in_words
from labs.read.stats.testbed_comparison import (
    AGREE,
    DISAGREE,
    ConditionComparison,
    describe_reasons,
    facts,
    grade,
)
from labs.read.theory.windows import series

Compare = Callable[[Verdict, Verdict], Sequence[ConditionComparison]]
"""The conditions of a claim that the runs behind two verdicts share."""

NOT = (DIFFERS, WRONG, BY_SOURCE)
"""For some kernels, these read `not` if the claim holds on others."""
TELLING = (
    *(WRONG, RIGHT_NUMBER, DISPUTED, DIFFERS, UNDECIDED, BY_SOURCE),
    *(HOLDS, HARDWARE, NOT_JUDGED),
)
UNKNOWN_CAUSE = "Testbed and kernel differ, and these runs do not show which of them is the cause"
COMMIT = re.compile(r"\b[0-9a-f]{12}\b")
LINUX = "Linux "
LONG_AGO = (0, 0)
"""The series of what is computed without a kernel."""


def composed(claim: Claim, found: Iterable[Verdict], compare: Compare) -> Verdict:
    """The verdict of all witnesses: `found` has one for each testbed and kernel series.

    Its figures are those of the first testbed (virtual, namespaces, vagrant) and the default kernel
    if these judge the claim.
    """
    distinct: dict[Witness | None, Verdict] = {}
    for one in sorted(found, key=_order):
        distinct.setdefault(one.witness, one)  # what is computed without runs is the same each time
    every = list(distinct.values())
    judged = [one for one in every if one.verdict not in NO_WORD]
    if not judged:
        return _without_word(every)
    on_series: dict[tuple[int, int], list[Verdict]] = {}
    for one in judged:
        on_series.setdefault(_series(one), []).append(one)
    on_kernels = [_on_one_kernel(some, compare) for some in on_series.values()]
    on_kernels.sort(key=_series)
    return _beside(claim, on_kernels)


def telling_first(article: Article, found: Iterable[Verdict]) -> list[Verdict]:
    """The verdicts in the order for readers: first those that contradict the article on any kernel,
    then those that hold, then those without a verdict; main claims before others."""

    def place(one: Verdict) -> tuple[int, bool]:
        word = min(TELLING.index(row.verdict) for row in one.rows)
        return word, not article.claim(one.id).major

    return sorted(found, key=place)


def noted_once(found: Iterable[Verdict], told: set[str]) -> tuple[Verdict, ...]:
    """The verdicts with each source of a note in full just once; later notes have its commits.
    `told` has the sources of earlier verdicts and receives those of these."""

    def once(note: Note | None) -> Note | None:
        if note is None or note.source not in told:
            return note
        return Note(note.changed, f"commit {', '.join(COMMIT.findall(note.source))}")

    noted: list[Verdict] = []
    for one in found:
        parts = tuple(replace(part, note=once(part.note)) for part in one.parts)
        noted.append(replace(one, note=once(one.note), parts=parts))
        told.update([one.note.source] if one.note else [])
    return tuple(noted)


def _series(one: Verdict) -> tuple[int, int]:
    """The kernel series of a verdict; all its witnesses have the same."""
    kernel = "" if one.witness is None else one.witness.kernel.partition(AND)[0]
    return series(kernel) if kernel else LONG_AGO


def _order(one: Verdict) -> tuple[object, ...]:
    testbed = "" if one.witness is None else one.witness.testbed.partition(AND)[0]
    known = TESTBEDS.index(testbed) if testbed in TESTBEDS else len(TESTBEDS)
    of_series = _series(one)
    return known, testbed, ".".join(map(str, of_series)) != DEFAULT, of_series, one.reason


def _joined(verdicts: Sequence[Verdict]) -> Verdict:
    """Several verdicts as the first of them, with the witnesses of all."""
    first = min(verdicts, key=_order)
    if len(verdicts) == 1:
        return first
    every = sorted((each for one in verdicts for each in one.witnesses or (one,)), key=_order)
    return replace(first, witnesses=tuple(every), witness=together(one.witness for one in every))


def _without_word(every: Sequence[Verdict]) -> Verdict:
    """Figures of the author's machine, or figures that could decide nothing, side by side."""
    some = [one for one in every if one.verdict == HARDWARE] or every
    shown = [one for one in some if one.measured is not None or one.verdict == HARDWARE]
    joined = _joined([one for one in shown if one.witness is not None] or some[:1])
    figures = min(shown, key=lambda one: (one.measured is None, _order(one)), default=joined)
    return replace(figures, witnesses=joined.witnesses, witness=joined.witness)


def _on_one_kernel(found: Sequence[Verdict], compare: Compare) -> Verdict:
    """The verdict of one or several testbeds on one kernel series."""
    first, *others = found
    agreed: list[Verdict] = []
    reasons: list[str] = []
    for one, other in combinations(found, 2):
        every = compare(one, other)
        worst, rows = grade(every), [row for row in every if row.ratio is not None]
        if worst == DISAGREE:
            reasons += [
                f"{row.condition} disagrees, ratio {_ratio(row)}: {row.because}"
                for row in rows
                if row.verdict == DISAGREE
            ]
        elif _differ(one, other) and worst != AGREE:
            reasons += [f"{row.condition}: ratio {_ratio(row)}: {_measured(row)}" for row in rows]
            reasons = reasons or ["they have no repeated condition in common"]
        elif _differ(one, other) and one is first:
            ratios = ", ".join(f"{row.condition} {_ratio(row)}" for row in rows)
            because = f"alone: {other.words}; the testbeds agree, ratios of {ratios}"
            agreed.append(replace(other, reason=f"{because}; {other.reason}"))
    if not reasons:
        named = {one.witness: one for one in agreed}
        return _joined([first, *(named.get(one.witness, one) for one in others)])
    said = "; ".join([*map(_says, found), *dict.fromkeys(reasons)])
    return replace(
        first,
        verdict=DISPUTED,
        factor=None,
        reason=said,
        witnesses=tuple(found),
        witness=together(one.witness for one in found),
    )


def _differ(one: Verdict, other: Verdict) -> bool:
    """Whether two verdicts contradict each other: by their words, or because one of two figures is
    above the article's and the other below it."""
    if one.verdict != other.verdict:
        return True
    return (
        one.factor is not None
        and other.factor is not None
        and ((one.factor > 1) != (other.factor > 1))
    )


def _beside(claim: Claim, on_kernels: Sequence[Verdict]) -> Verdict:
    """The verdicts of kernels, in their order: one, or a part for each group of kernels that agree
    in their word and their figures."""
    groups = _groups(on_kernels)
    if len(groups) == 1:
        return _as_one(on_kernels)
    by_word: dict[str, list[Verdict]] = {}
    for some in groups:
        by_word.setdefault(_as_one(some).verdict, []).extend(some)
    one_word = len(by_word) == 1
    note = Note(claim.changed, claim.source) if claim.changed and not one_word else None
    of_kernels = note is not None or _has_common_testbed(by_word.values())
    newest = next(place for place, some in enumerate(groups) if on_kernels[-1] in some)
    parts = tuple(
        replace(_as_one(some), where=_where(some, of_kernels), note=note if at == newest else None)
        for at, some in enumerate(groups)
    )
    if not of_kernels:
        note = Note(UNKNOWN_CAUSE, "")
    told = [f"{part.words}: {part.because}" for part in parts]
    first = min(on_kernels, key=_order)
    return replace(
        first,
        verdict=parts[0].verdict if one_word else _on_each(by_word, of_kernels),
        factor=None,
        reason=". ".join([*told, *([str(note)] if note else [])]),
        note=note,
        parts=parts,
        witnesses=(),
        witness=together(one.witness for one in parts),
    )


def _groups(on_kernels: Sequence[Verdict]) -> list[list[Verdict]]:
    """Kernels, in their order, in groups in which each pair agrees."""
    groups: list[list[Verdict]] = []
    for one in on_kernels:
        own = next((some for some in groups if all(_agree(one, other) for other in some)), None)
        if own is None:
            groups.append([one])
        else:
            own.append(one)
    return groups


def _agree(one: Verdict, other: Verdict) -> bool:
    """Whether two kernels agree: of chance, if their ranges overlap; otherwise if they have the
    same word and their figures are alike, or of different testbeds."""
    ranges = [(each.low, each.high) for each in (one.draws, other.draws) if each is not None]
    if len(ranges) == 2 and overlap(*ranges):
        return True
    spare = 0.0 if one.expected else one.tolerance_pct or 0.0  # of 0, the tolerance is in its unit
    return one.verdict == other.verdict and (
        not {*one.testbeds} & {*other.testbeds}
        or alike(one.measured, other.measured, one.expected, spare)
    )


def _as_one(group: Sequence[Verdict]) -> Verdict:
    """Kernels that agree, as one verdict; with chance, that of all their draws. Its witnesses keep
    their own words."""
    joined = _joined(group)
    if len(group) == 1 or not all(one.drawn for one in group):
        return joined
    return pooled(joined, tuple(draw for one in group for draw in one.drawn), joined.chance)


def _where(group: Sequence[Verdict], of_kernels: bool) -> str:
    """`Linux 6.1, 6.12`, or with testbeds `vagrant (Linux 6.1)`."""
    if of_kernels:
        return LINUX + ", ".join(map(_kernel, group))
    return ", ".join(map(_place, group))


def _has_common_testbed(words: Iterable[Sequence[Verdict]]) -> bool:
    """Whether one testbed has given each of the words, so that the kernel is the difference."""
    testbeds = [{name for one in some for name in one.testbeds} for some in words]
    return bool(set.intersection(*testbeds))


def _kernel(one: Verdict) -> str:
    return ".".join(map(str, _series(one)))


def _place(one: Verdict) -> str:
    testbed = "" if one.witness is None else one.witness.testbed
    return f"{testbed} (Linux {_kernel(one)})"


def _on_each(by_word: Mapping[str, Sequence[Verdict]], of_kernels: bool) -> str:
    """Each word with its places: `holds on Linux 6.1, not on 6.12`; or with testbeds and kernels:
    `holds on vagrant (Linux 6.1), not on namespaces (Linux 6.18)`."""
    named: dict[str, list[str]] = {}
    for word, some in by_word.items():
        said = "not" if word in NOT and HOLDS in by_word else word
        places = _where(sorted(some, key=_series), of_kernels)
        named.setdefault(said, []).append(places.removeprefix(LINUX))
    told = [f"{word} on {', '.join(some)}" for word, some in named.items()]
    told.sort(key=lambda words: words.startswith("not on "))
    return ", ".join(told).replace(" on ", f" on {LINUX}", 1) if of_kernels else ", ".join(told)


def _measured(row: ConditionComparison) -> str:
    """What may explain that the figures of a condition are close, but not the same."""
    return describe_reasons(
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
