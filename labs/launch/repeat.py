"""The method on real time: conditions repeated in a shuffled order until each is known enough.

First every condition `repetitions_min` times, all of these shuffled together, so that whatever the
machine does for a while hits all conditions alike. Then round by round, each shuffled, what is not
known well enough yet. To look at the interval after each run and to stop when it is narrow makes
it a little too narrow in the mean; a test says by how much.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from labs.drive.parameters.declare import LabParameters
from labs.launch.plan import Planned
from labs.read.runs.run import Run
from labs.read.stats.repetitions import of_median, repeated

Make = Callable[[Sequence[Planned]], None]


def repeat(
    planned: Sequence[Planned], p: LabParameters, make: Make, opened: Callable[[Planned], Run]
) -> tuple[Planned, ...]:
    """Let `make` make round after round of the planned conditions; `opened` opens a run that was
    made. Returns the runs of the study, by condition and repetition."""
    made: list[list[Planned]] = [[] for _ in planned]

    def known(condition: int) -> bool:
        (seen,) = repeated(planned[condition].lab, map(opened, made[condition]))
        return enough(len(seen.runs), seen.values if seen.figure else None, p)

    for batch in rounds(len(planned), p, known):
        runs = {place: planned[place[0]].repeated(place[1]) for place in batch}
        make(list(runs.values()))
        for condition, number in sorted(batch):
            made[condition].append(runs[condition, number])
    return tuple(one for found in made for one in found)


def rounds(
    conditions: int, p: LabParameters, known: Callable[[int], bool]
) -> Iterator[list[tuple[int, int]]]:
    """What is to be run, round by round: pairs of a condition's place and the repetition, from 1.

    The next round is asked for when all of the last one is made; `known` then says of a condition
    whether it needs no more.
    """
    chance = random.Random(p.seed)
    batch = [
        (place, number + 1) for place in range(conditions) for number in range(p.repetitions_min)
    ]
    number = p.repetitions_min
    while batch:
        chance.shuffle(batch)
        yield batch
        number += 1
        open_ones = sorted({place for place, _ in batch})
        batch = [(place, number) for place in open_ones if not known(place)]


def enough(tries: int, values: Sequence[float] | None, p: LabParameters) -> bool:
    """Whether a condition needs no more runs: its interval is narrow, or the limit is reached.

    `tries` are all of its runs; `values` the figures of those that no machine disturbed, None for
    a condition without a figure, which has nothing to be narrowed. Where fewer runs are asked for
    than an interval takes, they are all there is.
    """
    if tries >= max(p.repetitions_min, p.repetitions_max):
        return True
    if values is None:
        return tries >= p.repetitions_min
    if len(values) < p.repetitions_min:
        return False
    known = of_median(values)
    return known is None or (known.width_pct is not None and known.width_pct <= p.ci_width_pct)
