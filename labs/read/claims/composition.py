"""One verdict on a claim from those of all draws, testbeds and kernels, whatever their order.

Each testbed and kernel series is judged on its own. Testbeds on one series agree on a claim if
`labs runs compare` says so of its conditions (`testbed_comparison.grade`), or if their verdicts are
equal and it does not say that they disagree; otherwise the verdict is disputed. Where kernels
differ, by their word or by their figures, there is a part for each set of kernels that agree. Draws
of chance differ only where their ranges do not overlap; in a group, each range overlaps each other.

A condition has chance if several flows compete, or if packets are lost or dropped at random. Each
seed is one draw of it. A claim about such conditions is judged once per draw by the same judging
function: it holds if all draws do, and is undecided if only some do, or if some of at least five
could not be judged. Conditions that carry their own draws (the setting `draw`) are judged together
by their claim's function instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import combinations, groupby
from statistics import median, mode
from typing import Any

from labs.drive.kernel.versions import DEFAULT
from labs.drive.testbeds import TESTBEDS
from labs.guest.condition import Condition
from labs.read.claims.ledger import Article, Claim, Figure
from labs.read.claims.verdict import (
    AND,
    BY_SOURCE,
    DIFFERS,
    DISPUTED,
    FEWEST_DRAWS,
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
    alike,
    of_several,
    overlap,
    reduced,
    together,
)
from labs.read.display.format import figures_in_words
from labs.read.readings.flows import traffic_of_plan
from labs.read.stats.testbed_comparison import (
    AGREE,
    DISAGREE,
    ConditionComparison,
    describe_reasons,
    facts,
    grade,
)
from labs.read.theory.kernels import series

COMPETING = "competing flows"
RANDOM_LOSS = "random loss"
RANDOM_DROPS = "a queue that drops at random"
DROP_AT_RANDOM = ("pie", "fq_pie", "red")
DRAW = "draw"


def chance(condition: Condition) -> tuple[str, ...]:
    """Why the results of a condition depend on chance; empty if they do not."""
    reasons = [RANDOM_LOSS] if condition.link.loss_pct else []
    if "flows" in condition.plan:
        traffic = traffic_of_plan(condition.plan, condition.name)
        path = traffic.path
        reasons += [COMPETING] if len(traffic.flows) > 1 else []
        losses = [path.down.loss_pct, path.up.loss_pct, *(part.loss_pct for part in path.changes)]
        reasons += [RANDOM_LOSS] if any(losses) else []
        queues = [part.queue.kind for part in (path.down, path.up) if part.queue is not None]
        reasons += [RANDOM_DROPS] if set(queues) & set(DROP_AT_RANDOM) else []
    return tuple(dict.fromkeys(reasons))


def chance_of(conditions: Iterable[Condition]) -> str:
    """Why a claim about these conditions needs several draws, in words; empty if it needs none, or
    if the conditions carry their own."""
    every = list(conditions)
    reasons = dict.fromkeys(why for condition in every for why in chance(condition))
    return "" if any(DRAW in condition.settings for condition in every) else ", ".join(reasons)


def of_draws(verdicts: Sequence[Verdict], seeds: Sequence[int], why: str) -> Verdict:
    """The verdict of the draws of one testbed and kernel, each judged on its own; `why` says what
    is drawn. Not judged with too few draws."""
    drawn = [replace(verdict, seed=seed) for verdict, seed in zip(verdicts, seeds, strict=True)]
    first = next((verdict for verdict in drawn if verdict.is_judged), None)
    if first is None:
        return replace(verdicts[0], chance=why)
    behind = [draw.behind for draw in drawn if draw.is_judged and draw.behind is not None]
    return replace(pooled(first, drawn, why), behind=of_several(behind))


def pooled(like: Verdict, drawn: Sequence[Verdict], why: str) -> Verdict:
    """One verdict on a claim from all draws of one kernel, or of kernels whose ranges overlap;
    other fields are those of `like`. Draws that could not be judged are counted, and have no part
    in the figures."""
    judged = [draw for draw in drawn if draw.is_judged]
    unjudged = [draw for draw in drawn if not draw.is_judged]
    measured = reduced(median, [draw.measured for draw in judged])
    factors = [draw.factor for draw in judged if draw.factor is not None]
    word = _word([draw.verdict for draw in judged], len(drawn))
    lacking = f"; seed {unjudged[0].seed}: {unjudged[0].reason}" if unjudged else ""
    if word == NOT_JUDGED:
        reason = _too_few(len(judged), like.id, why)
    else:
        holding = sum(draw.verdict == HOLDS for draw in judged)
        of_them = f", {len(unjudged)} of them not judged" if unjudged else ""
        middle = min(judged, key=lambda draw: _from(measured, draw.measured))
        reason = (
            f"holds in {holding} of {len(drawn)} draws ({why}){of_them}; "
            f"seed {middle.seed}: {middle.reason}"
        )
    return replace(
        like,
        verdict=word,
        factor=median(factors) if word == DIFFERS and factors else None,
        measured=measured,
        predicted=reduced(median, [draw.predicted for draw in judged]),
        judged=0 if word == NOT_JUDGED else max(draw.judged for draw in judged),
        reason=f"{reason}{lacking}",
        chance=why,
        drawn=tuple(drawn),
    )


def _word(words: Sequence[str], draws: int) -> str:
    """The verdict from those of the judged ones among so many draws: a claim holds, or differs,
    only if none is undecided or could not be judged."""
    if len(words) < FEWEST_DRAWS:
        return NOT_JUDGED
    unclear = len(words) < draws or UNDECIDED in words
    if unclear or len({word == HOLDS for word in words}) > 1:
        return UNDECIDED
    return mode(words)


def _too_few(judged: int, id_: str, why: str) -> str:
    """That more draws are needed, and how to make them."""
    there = "is 1" if judged == 1 else f"are {judged}"
    reader = "" if find_spec("pyarrow") else "install pyarrow, which reads the recorded draws"
    return (
        f"{FEWEST_DRAWS} draws are needed ({why}), and there {there}. "
        f"Next: {reader or f'labs claims --id {id_} --seeds {FEWEST_DRAWS}'}"
    )


def _from(middle: Figure | None, figure: Figure | None) -> float:
    """How far one figure is from the median."""
    numbers = isinstance(middle, int | float) and isinstance(figure, int | float)
    return abs(figure - middle) if numbers else 0.0  # type: ignore[operator]


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


def composed(claim: Claim, verdicts: Iterable[Verdict], compare: Compare) -> Verdict:
    """The verdict of all witnesses, from one for each testbed and kernel series.

    Its figures are those of the first testbed (virtual, namespaces, vagrant) and the default kernel
    if these judge the claim.
    """
    distinct: dict[Witness | None, Verdict] = {}
    for verdict in sorted(verdicts, key=_order):
        distinct.setdefault(verdict.witness, verdict)  # without runs it is the same each time
    every = list(distinct.values())
    judged = sorted((each for each in every if each.verdict not in NO_WORD), key=_series)
    if not judged:
        return _without_word(every)
    on_kernels = [_on_one_kernel(list(same), compare) for _, same in groupby(judged, key=_series)]
    return _beside(claim, on_kernels)


def telling_first(article: Article, verdicts: Iterable[Verdict]) -> list[Verdict]:
    """The verdicts in the order for readers: first those that contradict the article on any kernel,
    then those that hold, then those without a verdict; main claims before others."""

    def place(verdict: Verdict) -> tuple[int, bool]:
        word = min(TELLING.index(row.verdict) for row in verdict.rows)
        return word, not article.claim(verdict.id).major

    return sorted(verdicts, key=place)


def noted_once(verdicts: Iterable[Verdict], told: set[str]) -> tuple[Verdict, ...]:
    """The verdicts with each source of a note in full just once; later notes have its commits.
    `told` has the sources of earlier verdicts and receives those of these."""

    def once(note: Note | None) -> Note | None:
        if note is None or note.source not in told:
            return note
        return Note(note.changed, f"commit {', '.join(COMMIT.findall(note.source))}")

    noted: list[Verdict] = []
    for verdict in verdicts:
        parts = tuple(replace(part, note=once(part.note)) for part in verdict.parts)
        noted.append(replace(verdict, note=once(verdict.note), parts=parts))
        told.update([verdict.note.source] if verdict.note else [])
    return tuple(noted)


def _series(verdict: Verdict) -> tuple[int, int]:
    """The kernel series of a verdict; all its witnesses have the same."""
    kernel = "" if verdict.witness is None else verdict.witness.kernel.partition(AND)[0]
    return series(kernel) if kernel else LONG_AGO


def _order(verdict: Verdict) -> tuple[object, ...]:
    testbed = next(iter(verdict.testbeds), "")
    place = [*TESTBEDS, testbed].index(testbed)
    return place, testbed, _kernel(verdict) != DEFAULT, _series(verdict), verdict.reason


def _with_all(first: Verdict, every: Iterable[Verdict], **changed: Any) -> Verdict:
    """A verdict, changed, with the witness of all of these."""
    return replace(first, witness=together(verdict.witness for verdict in every), **changed)


def _joined(verdicts: Sequence[Verdict]) -> Verdict:
    """Several verdicts as the first of them, with the witnesses of all."""
    if len(verdicts) == 1:
        return verdicts[0]
    every = [witness for verdict in verdicts for witness in verdict.witnesses or (verdict,)]
    every.sort(key=_order)
    return _with_all(min(verdicts, key=_order), every, witnesses=tuple(every))


def _without_word(every: Sequence[Verdict]) -> Verdict:
    """Figures of the author's machine, or figures that could decide nothing, side by side."""
    hardware = [verdict for verdict in every if verdict.verdict == HARDWARE]
    shown = hardware or [verdict for verdict in every if verdict.measured is not None]
    some = [verdict for verdict in shown if verdict.witness is not None]
    joined = _joined(some or (hardware or every)[:1])
    figures = min(shown, key=lambda each: (each.measured is None, _order(each)), default=joined)
    return replace(figures, witnesses=joined.witnesses, witness=joined.witness)


def _on_one_kernel(verdicts: Sequence[Verdict], compare: Compare) -> Verdict:
    """The verdict of one or several testbeds on one kernel series."""
    first, reasons = verdicts[0], list[str]()
    agreed = {verdict.witness: verdict for verdict in verdicts}
    for verdict, other in combinations(verdicts, 2):
        every, differ = compare(verdict, other), _differ(verdict, other)
        rows, worst = [row for row in every if row.ratio is not None], grade(every)
        if worst == DISAGREE:
            reasons += [
                f"{row.condition} disagrees, ratio {_ratio(row)}: {row.because}"
                for row in rows
                if row.verdict == DISAGREE
            ]
        elif differ and worst != AGREE:
            reasons += [f"{row.condition}: ratio {_ratio(row)}: {_measured(row)}" for row in rows]
            reasons = reasons or ["they have no repeated condition in common"]
        elif differ and verdict is first:
            ratios = ", ".join(f"{row.condition} {_ratio(row)}" for row in rows)
            because = f"alone: {other.words}; the testbeds agree, ratios of {ratios}"
            agreed[other.witness] = replace(other, reason=f"{because}; {other.reason}")
    if not reasons:
        return _joined(list(agreed.values()))
    told = [
        f"{verdict.witness}: {verdict.words}"
        + (f", {figures_in_words(verdict.measured)}" if verdict.measured is not None else "")
        for verdict in verdicts
    ]
    reason = "; ".join([*told, *dict.fromkeys(reasons)])
    changed = {"verdict": DISPUTED, "factor": None, "reason": reason}
    return _with_all(first, verdicts, witnesses=tuple(verdicts), **changed)


def _differ(first: Verdict, second: Verdict) -> bool:
    """Whether two verdicts contradict each other: by their words, or because one of two figures is
    above the article's and the other below it."""
    above = {each.factor > 1 for each in (first, second) if each.factor is not None}
    return len(above) == 2 or first.verdict != second.verdict


def _beside(claim: Claim, on_kernels: Sequence[Verdict]) -> Verdict:
    """The verdicts of kernels, in their order: one, or a part for each group of kernels that agree
    in their word and their figures."""
    groups = _groups(on_kernels)
    if len(groups) == 1:
        return _as_one(on_kernels)
    by_word: dict[str, list[Verdict]] = {}
    for group in groups:
        by_word.setdefault(_as_one(group).verdict, []).extend(group)
    note = Note(claim.changed, claim.source) if claim.changed and len(by_word) > 1 else None
    of_kernels = note is not None or _has_common_testbed(by_word.values())
    parts = [
        replace(
            _as_one(group),
            where=_where(group, of_kernels),
            note=note if on_kernels[-1] in group else None,
        )
        for group in groups
    ]
    note = note if of_kernels else Note(UNKNOWN_CAUSE, "")
    phrases = [f"{part.words}: {part.because}" for part in parts] + [str(note)] * (note is not None)
    return _with_all(
        min(on_kernels, key=_order),
        parts,
        witnesses=(),
        verdict=_on_each(by_word, of_kernels) if len(by_word) > 1 else parts[0].verdict,
        factor=None,
        reason=". ".join(phrases),
        note=note,
        parts=tuple(parts),
    )


def _groups(on_kernels: Sequence[Verdict]) -> list[list[Verdict]]:
    """Kernels, in their order, in groups in which each pair agrees."""
    groups: list[list[Verdict]] = []
    for verdict in on_kernels:
        fitting = (group for group in groups if all(_agree(verdict, each) for each in group))
        if (group := next(fitting, None)) is None:
            groups.append([verdict])
        else:
            group.append(verdict)
    return groups


def _agree(first: Verdict, second: Verdict) -> bool:
    """Whether two kernels agree: of chance, if their ranges overlap; otherwise if they have the
    same word and their figures are alike, or of different testbeds."""
    ranges = [(each.low, each.high) for each in (first.draws, second.draws) if each is not None]
    if len(ranges) == 2 and overlap(*ranges):
        return True
    spare = 0.0 if first.expected else first.tolerance_pct or 0.0  # of 0 it is in the unit
    return first.verdict == second.verdict and (
        not {*first.testbeds} & {*second.testbeds}
        or alike(first.measured, second.measured, first.expected, spare)
    )


def _as_one(group: Sequence[Verdict]) -> Verdict:
    """Kernels that agree, as one verdict; with chance, that of all their draws. Its witnesses keep
    their own words."""
    joined = _joined(group)
    if len(group) == 1 or not all(verdict.drawn for verdict in group):
        return joined
    draws = tuple(draw for verdict in group for draw in verdict.drawn)
    return pooled(joined, draws, joined.chance)


def _where(group: Sequence[Verdict], of_kernels: bool) -> str:
    """`Linux 6.1, 6.12`, or with testbeds `vagrant (Linux 6.1)`."""
    if of_kernels:
        return LINUX + ", ".join(map(_kernel, group))
    return ", ".join(f"{AND.join(each.testbeds)} ({LINUX}{_kernel(each)})" for each in group)


def _has_common_testbed(words: Iterable[Sequence[Verdict]]) -> bool:
    """Whether one testbed has given each of the words, so that the kernel is the difference."""
    testbeds = [{name for verdict in group for name in verdict.testbeds} for group in words]
    return bool(set.intersection(*testbeds))


def _kernel(verdict: Verdict) -> str:
    return ".".join(map(str, _series(verdict)))


def _on_each(by_word: Mapping[str, Sequence[Verdict]], of_kernels: bool) -> str:
    """Each word with its places: `holds on Linux 6.1, not on 6.12`; or with testbeds and kernels:
    `holds on vagrant (Linux 6.1), not on namespaces (Linux 6.18)`."""
    places: dict[str, list[str]] = {}
    for word, group in by_word.items():
        name = "not" if word in NOT and HOLDS in by_word else word
        where = _where(sorted(group, key=_series), of_kernels)
        places.setdefault(name, []).append(where.removeprefix(LINUX))
    phrases = [f"{name} on {', '.join(where)}" for name, where in places.items()]
    text = ", ".join(sorted(phrases, key=lambda phrase: phrase.startswith("not on ")))
    return text.replace(" on ", f" on {LINUX}", 1) if of_kernels else text


def _measured(row: ConditionComparison) -> str:
    """What may explain that the figures of a condition are close, but not the same."""
    first, second = (facts(side.lab, side.middle) for side in (row.first, row.second))
    return describe_reasons(first, second, row.margin)


def _ratio(row: ConditionComparison) -> str:
    assert row.ratio is not None
    return f"{row.ratio.middle:.2f} ({row.ratio.low:.2f} to {row.ratio.high:.2f})"
