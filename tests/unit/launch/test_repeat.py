"""When a condition is run again, in which order, and when it is known well enough."""

from __future__ import annotations

from itertools import islice

import numpy
import pytest

from labs.experiments.buffers.conditions import Parameters as Buffers
from labs.launch.repeat import enough, rounds
from labs.read.stats.repetitions import of_median

P = Buffers(testbed="namespaces", repetitions_min=5, repetitions_max=8, ci_width_pct=10)
NARROW, WIDE = [9.7, 9.9, 10.0, 10.1, 10.3], [8.0, 9.0, 10.0, 11.0, 12.0]


@pytest.mark.parametrize(
    ("tries", "values", "known"),
    [
        (4, NARROW[:4], False),  # fewer than the least
        (5, NARROW, True),  # 6 % wide
        (5, WIDE, False),  # 40 % wide
        (6, NARROW[:4], False),  # two were disturbed: they do not count
        (7, NARROW, True),
        (8, WIDE, True),  # the most, however wide
        (8, [], True),  # the most, all disturbed
        (5, [], False),
        (5, [0.0] * 5, False),  # an interval without a width is not narrow
        (4, None, False),  # nothing to be narrowed
        (5, None, True),
    ],
)
def test_enough_by_tries_and_width(tries: int, values: list[float] | None, known: bool) -> None:
    assert enough(tries, values, P) is known


def test_enough_when_fewer_are_requested_than_an_interval_takes() -> None:
    few = Buffers(repetitions_min=2, repetitions_max=10)
    assert enough(2, WIDE[:2], few) and not enough(2, WIDE[:1], few)


def test_enough_requires_the_minimum_even_above_the_maximum() -> None:
    asked = Buffers(repetitions_min=7, repetitions_max=3)
    assert not enough(6, WIDE, asked) and enough(7, WIDE, asked)


def test_rounds_have_every_condition_once_in_each_block() -> None:
    (first,) = islice(rounds(6, P, lambda condition: True), 1)
    blocks = [first[place : place + 6] for place in range(0, 30, 6)]
    for number, block in enumerate(blocks, 1):
        assert sorted(block) == [(condition, number) for condition in range(6)]
    orders = {tuple(condition for condition, _ in block) for block in blocks}
    assert len(orders) > 1 and tuple(range(6)) not in orders


def test_rounds_repeat_only_what_is_not_known_yet() -> None:
    tries = dict.fromkeys(range(4), 0)

    def known(condition: int) -> bool:
        return condition < 2 or tries[condition] == 7

    found = []
    for batch in rounds(4, P, known):
        found.append(sorted(batch))
        for condition, _ in batch:
            tries[condition] += 1
    assert found[1:] == [[(2, 6), (3, 6)], [(2, 7), (3, 7)]]
    assert tries == {0: 5, 1: 5, 2: 7, 3: 7}


def test_rounds_order_depends_on_the_seed_alone() -> None:
    orders = [next(rounds(6, Buffers(seed=seed), lambda condition: True)) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


def test_enough_after_each_run_costs_little_of_the_level() -> None:
    """To stop as soon as the interval is narrow prefers intervals that are so by chance: the level
    of 93.75 % falls, and must not fall far. 400 studies of runs that spread by 4 %; four standard
    deviations of a share of 0.9 among them are 6 points."""
    chance, held, studies = numpy.random.default_rng(6), 0, 400
    for _ in range(studies):
        values: list[float] = []
        while not enough(len(values), values, P):
            values.append(float(chance.normal(100, 4)))
        known = of_median(values)
        assert known is not None and len(values) >= 5
        held += known.low <= 100 <= known.high
    assert held / studies > 0.84
