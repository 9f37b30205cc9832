"""Chance: what of a run is drawn at random, and the verdict of several draws.

A condition has chance if several flows compete, or if packets are lost or dropped at random. Each
seed is one draw of it. A claim about such conditions is judged once per draw by the same judging
function: it holds if all draws do, and is undecided if only some do. Conditions that carry their
own draws (the setting `draw`) are judged together by their claim's function instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median

from labs.drive.condition import Condition
from labs.read.claims.figures import reduced
from labs.read.claims.judged_runs import of_several
from labs.read.claims.ledger import Figure
from labs.read.claims.verdict import (
    DIFFERS,
    FEWEST_DRAWS,
    HOLDS,
    NO_WORD,
    NOT_JUDGED,
    UNDECIDED,
    Drawn,
    Verdict,
)
from labs.read.readings.flows import traffic_of_plan

COMPETING = "competing flows"
RANDOM_LOSS = "random loss"
RANDOM_DROPS = "a queue that drops at random"
DROP_AT_RANDOM = ("pie", "fq_pie", "red")
DRAW = "draw"


def chance(condition: Condition) -> tuple[str, ...]:
    """Why the results of a condition depend on chance; empty if they do not."""
    found = [RANDOM_LOSS] if condition.link.loss_pct else []
    if "flows" in condition.plan:
        traffic = traffic_of_plan(condition.plan, condition.name)
        path = traffic.path
        found += [COMPETING] if len(traffic.flows) > 1 else []
        losses = [path.down.loss_pct, path.up.loss_pct, *(one.loss_pct for one in path.changes)]
        found += [RANDOM_LOSS] if any(losses) else []
        queues = [one.queue.kind for one in (path.down, path.up) if one.queue is not None]
        found += [RANDOM_DROPS] if set(queues) & set(DROP_AT_RANDOM) else []
    return tuple(dict.fromkeys(found))


def chance_of(conditions: Iterable[Condition]) -> str:
    """Why a claim about these conditions needs several draws, in words; empty if it needs none, or
    if the conditions carry their own."""
    every = list(conditions)
    if any(DRAW in one.settings for one in every):
        return ""
    return ", ".join(dict.fromkeys(why for one in every for why in chance(one)))


def of_draws(found: Sequence[Verdict], seeds: Sequence[int], why: str) -> Verdict:
    """The verdict of the draws of one testbed and kernel, each judged on its own; `why` says what
    is drawn. Not judged with too few draws."""
    drawn = tuple(
        Drawn(seed, one)
        for seed, one in zip(seeds, found, strict=True)
        if one.verdict not in NO_WORD
    )
    if not drawn:
        return replace(found[0], chance=why)
    behind = [one.verdict.behind for one in drawn if one.verdict.behind is not None]
    joined = pooled(drawn[0].verdict, drawn, why)
    return replace(joined, behind=of_several(behind) if behind else None)


def pooled(like: Verdict, drawn: tuple[Drawn, ...], why: str) -> Verdict:
    """One verdict on a claim from all draws of one kernel, or of kernels whose ranges overlap;
    other fields are those of `like`."""
    every = [one.verdict for one in drawn]
    holding = sum(one.verdict == HOLDS for one in every)
    measured = reduced(median, [one.measured for one in every])
    factors = [one.factor for one in every if one.factor is not None]
    told = f"holds in {holding} of {len(every)} draws ({why})"
    if len(drawn) < FEWEST_DRAWS:
        word = NOT_JUDGED
        told = (
            f"{FEWEST_DRAWS} draws are needed ({why}), and there "
            f"{'is 1' if len(drawn) == 1 else f'are {len(drawn)}'}. "
            f"Next: labs claims --id {like.id} --seeds {FEWEST_DRAWS}"
        )
    elif 0 < holding < len(every):
        word = UNDECIDED
    else:
        word = Counter(one.verdict for one in every).most_common(1)[0][0]
    middle = min(drawn, key=lambda one: _from(measured, one.verdict.measured))
    joined = replace(
        like,
        verdict=word,
        factor=median(factors) if word == DIFFERS and factors else None,
        measured=measured,
        predicted=reduced(median, [one.predicted for one in every]),
        judged=0 if word in NO_WORD else max(one.judged for one in every),
        chance=why,
        drawn=drawn,
    )
    if word != NOT_JUDGED:
        told += f"; seed {middle.seed}: {middle.verdict.reason}"
    return replace(joined, reason=told)


def _from(middle: Figure | None, one: Figure | None) -> float:
    """How far one figure is from the median."""
    numbers = isinstance(middle, int | float) and isinstance(one, int | float)
    return abs(one - middle) if numbers else 0.0  # type: ignore[operator]
