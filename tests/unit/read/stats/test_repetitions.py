"""The interval of a median against what is known in closed form."""

from __future__ import annotations

from math import comb

import numpy
import pytest

from labs.read.stats.repetitions import FEWEST, LEVEL_PCT, of_interaction, of_median, of_ratio

# Four standard deviations of a share of 0.94 among 1,000 draws: 4 * sqrt(0.94 * 0.06 / 1000).
DRAWS, CHANCE = 1000, 0.03


def below(count: int, place: int) -> float:
    """The chance that the median of a resample of an odd `count` is at most the `place`-th value.

    Efron, The Jackknife, the Bootstrap and Other Resampling Plans (1982), equation (10.12): more
    than half of the draws are among the `place` smallest.
    """
    share = place / count
    return sum(
        comb(count, j) * share**j * (1 - share) ** (count - j)
        for j in range(count // 2 + 1, count + 1)
    )


def places(count: int) -> tuple[int, int]:
    """The values, counted from 1, that the percentile interval begins and ends at."""
    tail = (1 - LEVEL_PCT / 100) / 2
    low = min(place for place in range(1, count + 1) if below(count, place) >= tail)
    high = min(place for place in range(1, count + 1) if below(count, place) >= 1 - tail)
    return low, high


@pytest.mark.parametrize("count", [5, 7, 9, 11, 15, 21])
def test_of_median_is_that_of_all_resamples(count: int) -> None:
    values = [float(value) for value in range(1, count + 1)]
    found = of_median(values)
    assert found is not None
    assert (found.low, found.high) == places(count)
    assert (found.middle, found.count) == ((count + 1) / 2, count)


def test_of_median_of_five_values_is_their_range() -> None:
    """One value makes 3 of 5 draws with a chance of 5.8 %, more than the tail's 2.5 %."""
    assert below(5, 1) == pytest.approx(0.05792)
    found = of_median([9.0, 1.0, 4.0, 5.0, 2.0])
    assert found is not None and (found.low, found.middle, found.high) == (1.0, 4.0, 9.0)


@pytest.mark.parametrize("count", [5, 9])
def test_of_median_covers_the_true_median_as_often_as_order_statistics(count: int) -> None:
    """The chance that the median lies between two of the ordered values is binomial, whatever the
    distribution: here one with a long tail."""
    low, high = places(count)
    expected = sum(comb(count, j) for j in range(low, high)) / 2**count
    chance = numpy.random.default_rng(4)
    held = 0
    for values in chance.lognormal(0, 1, (DRAWS, count)):
        found = of_median(values.tolist())
        assert found is not None
        held += found.low <= 1 <= found.high
    assert held / DRAWS == pytest.approx(expected, abs=CHANCE)
    assert expected > 0.92


def test_of_ratio_covers_the_true_ratio() -> None:
    chance = numpy.random.default_rng(5)
    held = 0
    for _ in range(DRAWS // 4):
        found = of_ratio(chance.normal(90, 5, 7).tolist(), chance.normal(100, 5, 7).tolist())
        assert found is not None
        held += found.low <= 0.9 <= found.high
    # The bootstrap of a ratio has no closed form; it must not fall far below its level.
    assert held / (DRAWS // 4) > 0.9


def test_of_ratio_over_an_exact_side_is_the_interval_of_the_other() -> None:
    values = [11.0, 12.0, 10.5, 11.5, 12.5, 11.2]
    alone, over = of_median(values), of_ratio(values, [10.0], exact_under=True)
    assert alone is not None and over is not None
    assert (over.low, over.middle, over.high) == pytest.approx(
        (alone.low / 10, alone.middle / 10, alone.high / 10)
    )
    assert over.count == 6


def test_of_median_and_of_ratio_of_few_values_are_none() -> None:
    few, enough = [1.0] * (FEWEST - 1), [1.0] * FEWEST
    assert of_median(few) is None
    assert of_ratio(few, enough) is None and of_ratio(enough, few) is None
    assert of_ratio(enough, [], exact_under=True) is None
    assert of_ratio(enough, [0.0], exact_under=True) is None


def test_of_median_repeats() -> None:
    values = [3.0, 1.0, 2.5, 2.0, 4.0, 2.2]
    assert of_median(values) == of_median(values)


def test_width_pct_is_of_the_median() -> None:
    same, nothing = of_median([2.0] * 5), of_median([-1.0, -1.0, 0.0, 1.0, 1.0])
    assert same is not None and same.width_pct == 0
    assert nothing is not None and nothing.width_pct is None
    spread = of_median([9.0, 10.0, 10.0, 10.0, 11.0])
    assert spread is not None and spread.width_pct == pytest.approx(20)


def test_of_ratio_draws_both_sides_independently() -> None:
    """Drawn alike, two equal sides would come to a ratio of exactly one."""
    values = [8.0, 9.0, 10.0, 11.0, 12.0]
    found = of_ratio(values, values)
    assert found is not None and found.low < 0.9 and found.high > 1.1


def test_of_interaction_covers_the_true_ratio_of_effects() -> None:
    """The first setting doubles the figure, with the second one it triples it: 3 / 2. The level of
    a percentile bootstrap of seven values is below the nominal one; 90 % allows for that."""
    chance = numpy.random.default_rng(7)
    covered = 0
    for _ in range(100):
        four = [chance.normal(mean, mean / 20, 7).tolist() for mean in (10, 20, 100, 300)]
        found = of_interaction(*four)
        assert found is not None and found.count == 7
        covered += found.low <= 1.5 <= found.high
    assert covered >= 90


def test_of_interaction_needs_enough_values_of_each_condition() -> None:
    enough = [1.0] * FEWEST
    assert of_interaction(enough, enough, enough, enough) is not None
    assert of_interaction(enough, enough, enough, enough[1:]) is None
    assert of_interaction(enough, enough, [0.0] * FEWEST, enough) is None
