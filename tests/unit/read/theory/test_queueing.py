"""Requests served one after another: figures computed by hand, and a simulation."""

from __future__ import annotations

import random
from statistics import mean

import pytest

from labs.read.theory.queueing import (
    capacity_per_s,
    closed_loop_us,
    evenly_spaced_us,
    random_moments_us,
)


def test_capacity_of_one_thread() -> None:
    assert capacity_per_s(200) == 5000


def test_evenly_spaced_requests_wait_only_beyond_the_capacity() -> None:
    assert evenly_spaced_us(4999, 200, 3) == 200
    # 6,000 per second for 3 s: 18,000 sent, 15,000 served; the last one waits for 3,000 of 200 us.
    assert evenly_spaced_us(6000, 200, 3) == pytest.approx(600_000, rel=0.001)


def test_random_moments_is_the_pollaczek_khinchine_mean() -> None:
    """At half of the capacity the wait is half of a service time, at 80 % two of them."""
    assert random_moments_us(2500, 200) == pytest.approx(300)
    assert random_moments_us(4000, 200) == pytest.approx(600)
    assert random_moments_us(5000, 200) is None


@pytest.mark.parametrize("rate_per_s", [1000, 2500, 4000])
def test_random_moments_agree_with_a_simulation(rate_per_s: int) -> None:
    """The wait of each request follows from the one before it (Lindley's recursion)."""
    chance, service_us, wait_us, waits = random.Random(1), 200.0, 0.0, []
    for _ in range(200_000):
        waits.append(wait_us)
        wait_us = max(0.0, wait_us + service_us - chance.expovariate(rate_per_s / 1e6))
    # 3 %: three standard errors of the mean at 80 % load with this many requests.
    assert random_moments_us(rate_per_s, service_us) == pytest.approx(
        service_us + mean(waits), rel=0.03
    )


def test_closed_loop_at_capacity_serves_its_connections_in_turn() -> None:
    assert closed_loop_us(16, 200) == 3200
