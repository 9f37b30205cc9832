"""Repetition in real time: conditions are repeated in a shuffled order until their intervals are
narrow enough.

First, every condition is run `repetitions_min` times, in blocks. A block has every condition once,
in an order of its own, so a disturbance of the machine affects all conditions alike. Then, in
shuffled rounds, the conditions whose interval is still too wide are run again. Checking the
interval after each round and stopping once it is narrow makes it slightly too narrow on average; a
test says by how much.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from labs.drive.parameters.declare import LabParameters
from labs.launch.plan import Planned
from labs.launch.wanted import Opened
from labs.read.lab import Lab
from labs.read.stats.repetitions import of_median, repeated


def repeat(
    lab: Lab,
    planned: Sequence[Planned],
    p: LabParameters,
    opened: Opened,
    make: Callable[[Sequence[Planned]], object],
) -> tuple[Planned, ...]:
    """Call `make` with one round of planned runs after another; `opened` has those completed.

    Returns the runs of the study, by condition and repetition.
    """
    made: list[list[Planned]] = [[] for _ in planned]

    def is_precise(condition: int) -> bool:
        (seen,) = repeated(lab, (opened[run.name] for run in made[condition]))
        return enough(len(seen.runs), seen.values if seen.figure else None, p)

    for batch in rounds(len(planned), p, is_precise):
        runs = {place: planned[place[0]].repeated(place[1]) for place in batch}
        make(list(runs.values()))
        for condition, number in sorted(batch):
            made[condition].append(runs[condition, number])
    return tuple(repetition for repetitions in made for repetition in repetitions)


def rounds(
    conditions: int, p: LabParameters, is_precise: Callable[[int], bool]
) -> Iterator[list[tuple[int, int]]]:
    """The runs to perform, round by round: pairs of a condition's index and a repetition, from 1.

    The next round is requested when all runs of the last one are complete. `is_precise` then says
    whether a condition needs no more runs.
    """
    chance = random.Random(p.seed)

    def block(places: Sequence[int], number: int) -> list[tuple[int, int]]:
        return [(place, number) for place in chance.sample(places, len(places))]

    every = range(conditions)
    batch = [pair for number in range(p.repetitions_min) for pair in block(every, number + 1)]
    number = p.repetitions_min
    while batch:
        yield batch
        number += 1
        open_ones = sorted({place for place, _ in batch})
        batch = block([place for place in open_ones if not is_precise(place)], number)


def enough(tries: int, values: Sequence[float] | None, p: LabParameters) -> bool:
    """Whether a condition needs no more runs: its interval is narrow, or the limit is reached.

    `tries` is the number of its runs; `values` are the figures of the undisturbed ones, None for a
    condition without a figure, which has no interval to narrow. If the requested runs are too few
    for an interval, they are enough.
    """
    if tries >= max(p.repetitions_min, p.repetitions_max):
        return True
    if values is None:
        return tries >= p.repetitions_min
    if len(values) < p.repetitions_min:
        return False
    interval = of_median(values)
    return interval is None or (
        interval.width_pct is not None and interval.width_pct <= p.ci_width_pct
    )
