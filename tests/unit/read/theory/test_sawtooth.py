"""The sawtooth of one flow in a FIFO: the closed form against the fluid model, and known limits."""

from __future__ import annotations

import pytest

from labs.read.theory.queues import cycle, full_buffer_bdp, reno_utilisation

CAPACITY = 20e6 / 8 / 1514
PIPE = CAPACITY * 0.04


@pytest.mark.parametrize("buffer_bdp", [0.05, 0.1, 0.3, 0.5, 0.9, 1.0, 3.0])
def test_cycle_of_reno_agrees_with_the_closed_form(buffer_bdp: float) -> None:
    found = cycle("reno", CAPACITY, 40.0, buffer_bdp * PIPE)
    assert found.utilisation_pct == pytest.approx(100 * reno_utilisation(buffer_bdp), abs=0.1)


@pytest.mark.parametrize("rate_mbit", [1_000, 10_000])
def test_long_cycle_is_whole(rate_mbit: int) -> None:
    """Reno on a pipe of 16,500 segments and of ten times as many."""
    capacity = rate_mbit * 1e6 / 8 / 1514
    found = cycle("reno", capacity, 200.0, 0.5 * capacity * 0.2)
    assert found.utilisation_pct == pytest.approx(100 * reno_utilisation(0.5), abs=0.1)
    assert found.queue_ms[-1][0] == pytest.approx(100, rel=1e-3)


def test_reno_without_a_buffer_uses_three_quarters() -> None:
    """The mean of a window between half and all of the pipe."""
    assert reno_utilisation(0) == pytest.approx(0.75)


def test_full_buffer_is_one_bdp_for_reno_and_less_for_cubic() -> None:
    """Appenzeller, Keslassy and McKeown 2004, section 2; RFC 9438, section 4.6."""
    assert full_buffer_bdp("reno") == 1
    assert full_buffer_bdp("cubic") == pytest.approx(3 / 7)
    for control in ("reno", "cubic"):
        enough = cycle(control, CAPACITY, 40.0, full_buffer_bdp(control) * PIPE)
        assert enough.utilisation_pct == pytest.approx(100, abs=0.01)
        less = cycle(control, CAPACITY, 40.0, 0.5 * full_buffer_bdp(control) * PIPE)
        assert less.utilisation_pct < 99.5


def test_period_of_reno_is_one_round_trip_per_segment() -> None:
    """Without a buffer every round trip takes 40 ms and adds a segment, from half of the pipe."""
    assert cycle("reno", CAPACITY, 40.0, 0.0).period_s == pytest.approx(PIPE / 2 * 0.04, rel=0.02)


def test_queue_is_between_nothing_and_the_buffer() -> None:
    found = cycle("cubic", CAPACITY, 40.0, 2 * PIPE)
    assert 0 < found.queue_percentile_ms(1) < found.queue_percentile_ms(50) < 80
    # 0.7 of three BDPs is 2.1, so 1.1 BDPs of 40 ms wait at least.
    assert found.queue_percentile_ms(0) == pytest.approx(44, abs=1)
    assert found.queue_percentile_ms(100) == pytest.approx(80, abs=1)


def test_cubic_grows_as_reno_on_a_small_pipe_only() -> None:
    """RFC 9438, section 4.3: with small BDPs the estimate of Reno's window is larger."""
    assert not cycle("cubic", 5e6 / 8 / 1514, 20.0, 8).cubic_region
    assert cycle("cubic", 100e6 / 8 / 1514, 80.0, 500).cubic_region
