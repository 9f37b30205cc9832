"""Chance: what of a run is drawn at random, and the verdict of several draws.

A condition has chance if several flows compete, or if packets are lost or dropped at random. Each
seed is one draw of it. A claim about such conditions is judged once per draw by the same judging
function: it holds if all draws do, and is undecided if only some do, or if some of at least five
could not be judged. Conditions that carry their
own draws (the setting `draw`) are judged together by their claim's function instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from statistics import median, mode

from labs.drive.condition import Condition
from labs.read.claims.figures import reduced
from labs.read.claims.judged_runs import of_several
from labs.read.claims.ledger import Figure
from labs.read.claims.verdict import DIFFERS, FEWEST_DRAWS, HOLDS, NOT_JUDGED, UNDECIDED, Verdict
from labs.read.readings.flows import traffic_of_plan

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
    if any(DRAW in condition.settings for condition in every):
        return ""
    return ", ".join(dict.fromkeys(why for condition in every for why in chance(condition)))


def of_draws(verdicts: Sequence[Verdict], seeds: Sequence[int], why: str) -> Verdict:
    """The verdict of the draws of one testbed and kernel, each judged on its own; `why` says what
    is drawn. Not judged with too few draws."""
    drawn = [replace(verdict, seed=seed) for verdict, seed in zip(verdicts, seeds, strict=True)]
    first = next((verdict for verdict in drawn if verdict.is_judged), None)
    if first is None:
        return replace(verdicts[0], chance=why)
    behind = [draw.behind for draw in drawn if draw.is_judged and draw.behind is not None]
    return replace(pooled(first, drawn, why), behind=of_several(behind) if behind else None)


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
