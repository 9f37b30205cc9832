"""The method on real time: conditions repeated in a shuffled order until each is known enough.

First every condition `repetitions_min` times, all of these shuffled together, so that whatever the
machine does for a while hits all conditions alike. Then round by round, each shuffled, what is not
known well enough yet. To look at the interval after each run and to stop when it is narrow makes
it a little too narrow in the mean; a test says by how much.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from labs.analysis.interval import of_median
from labs.analysis.repeated import repeated
from labs.catalogue import Lab
from labs.launch.plan import Planned, plan
from labs.parameters.base import LabParameters
from labs.runs.run import open_run

Make = Callable[[Sequence[Planned]], None]


def repeat(lab: Lab, p: LabParameters, runs: Path, make: Make) -> tuple[Planned, ...]:
    """Let `make` make batch after batch; the runs of the study, by condition and repetition."""
    by_repetition = [plan(lab, p, 1)]
    conditions = range(len(by_repetition[0]))
    chance = random.Random(p.seed)
    times = dict.fromkeys(conditions, 0)

    def planned(condition: int, repetition: int) -> Planned:
        while len(by_repetition) < repetition:
            by_repetition.append(plan(lab, p, len(by_repetition) + 1))
        return by_repetition[repetition - 1][condition]

    def made(condition: int) -> list[Planned]:
        return [planned(condition, number + 1) for number in range(times[condition])]

    left = [place for place in conditions for _ in range(p.repetitions_min)]
    while left:
        batch = []
        for place in left:
            times[place] += 1
            batch.append(planned(place, times[place]))
        chance.shuffle(batch)
        make(batch)
        left = [place for place in conditions if not _enough(runs, made(place), p)]
    return tuple(one for place in conditions for one in made(place))


def enough(tries: int, values: Sequence[float] | None, p: LabParameters) -> bool:
    """Whether a condition needs no more runs: its interval is narrow, or the limit is reached.

    `tries` are all of its runs; `values` the figures of those that no machine disturbed, None for
    a condition without a figure, which has nothing to be narrowed. Where fewer runs are asked for
    than an interval takes, they are all there is.
    """
    if tries >= p.repetitions_max:
        return True
    if values is None:
        return tries >= p.repetitions_min
    if len(values) < p.repetitions_min:
        return False
    known = of_median(values)
    return known is None or (known.width_pct is not None and known.width_pct <= p.width_pct)


def _enough(runs: Path, made: Sequence[Planned], p: LabParameters) -> bool:
    (seen,) = repeated(open_run(runs / one.name) for one in made)
    return enough(len(made), seen.values if seen.figure else None, p)


def titles(lab: Lab, p: LabParameters) -> list[str]:
    """What progress calls the runs that are made in any case."""
    names = [condition.name for condition in lab.conditions(p)]
    if p.testbed == "virtual":
        return names
    return [f"{name} {number + 1}" for name in names for number in range(p.repetitions_min)]
