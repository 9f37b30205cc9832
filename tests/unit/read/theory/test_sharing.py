"""Theories of several flows on one link: published figures, and limits that follow by hand."""

from __future__ import annotations

import pytest

from labs.read.theory.bdp import (
    bandwidth_ratio,
    clocked_goodput_bytes_s,
    loss_event_pct,
    losses_per_bdp,
    mathis_bytes_s,
    mathis_utilisation,
)
from labs.read.theory.queues import cycle, largest_queue_ms, many_flows_utilisation, needed_bdp
from labs.read.theory.sharing import (
    bbr_share,
    fair_shares,
    independent,
    jain,
    power_of_rtt,
    synchronised,
)

CAPACITY = 10e6 / 8 / 1514


def test_square_root_rule_gives_the_paper_s_utilisation() -> None:
    """Appenzeller, Keslassy and McKeown 2004, section 3: 98.99 % for 10,000 flows and
    1 / sqrt(n) BDPs."""
    assert needed_bdp(10_000) == pytest.approx(0.01)
    assert many_flows_utilisation(10_000, 0.01) == pytest.approx(0.9899, abs=5e-5)
    assert many_flows_utilisation(16, 0.25) < many_flows_utilisation(16, 0.5)


def test_bbr_takes_everything_below_one_bdp_and_half_of_a_deep_buffer() -> None:
    """Ware and others 2019, equations 9 to 11: without the time in ProbeRTT."""
    small = bbr_share(0.5, CAPACITY, 40)
    probing = (0.02 + 0.2 + 0.04) / 10
    assert small == pytest.approx(1 - probing)
    deep = bbr_share(16, 100 * CAPACITY, 40)
    probing = (0.64 + 0.2 + 0.04) / 10
    assert deep / (1 - probing) == pytest.approx(0.5 + 1 / 32, abs=0.001)


def test_reno_s_shares_go_with_the_square_of_the_rtt_if_losses_are_synchronised() -> None:
    """RFC 9438, section 3.3. With hardly any queue the RTTs are those of the path."""
    near, far = synchronised(("reno", "reno"), (20, 80), 10 * CAPACITY, 0.5).shares
    assert near / far == pytest.approx(16, rel=0.01)
    near, far = independent((20, 80))
    assert near / far == pytest.approx(4)


@pytest.mark.parametrize(
    ("rates", "rtts_ms", "power"),
    [
        ((1, 4), (80, 20), 1),
        ((1, 16), (80, 20), 2),
        ((5, 5), (80, 20), 0),
        ((0, 5), (80, 20), None),
        ((5, 0), (80, 20), None),
        ((5, 5), (20, 20), None),
        ((5, 5), (None, 20), None),
    ],
)
def test_power_of_rtt_is_that_of_the_rates(
    rates: tuple[float, float], rtts_ms: tuple[float | None, float | None], power: float | None
) -> None:
    assert power_of_rtt(rates, rtts_ms) == (None if power is None else pytest.approx(power))


def test_cubic_s_shares_go_with_the_rtt_on_a_large_pipe_only() -> None:
    """RFC 9438, section 3.3: outside of the Reno-friendly region."""
    large = synchronised(("cubic", "cubic"), (50, 200), 100 * CAPACITY, 50.0).shares
    small = synchronised(("cubic", "cubic"), (5, 20), CAPACITY, 1.0).shares
    assert large[0] / large[1] == pytest.approx(4, rel=0.35)
    assert small[0] / small[1] > 12


def test_a_queue_makes_shares_more_alike() -> None:
    empty, full = (
        synchronised(("reno", "reno"), (20, 80), 10 * CAPACITY, size).shares
        for size in (0.5, 400.0)
    )
    assert full[1] > empty[1]
    assert sum(full) == pytest.approx(1)
    assert synchronised(("cubic", "cubic"), (40, 40), CAPACITY, 33.0).shares == (0.5, 0.5)


def test_one_flow_of_the_model_is_the_sawtooth() -> None:
    one = synchronised(("reno",), (40,), 2 * CAPACITY, 33.0)
    cycle_of_one = cycle("reno", 2 * CAPACITY, 40.0, 33.0)
    assert one.utilisation_pct == pytest.approx(cycle_of_one.utilisation_pct, abs=1)
    assert one.queue_ms == pytest.approx(cycle_of_one.queue_percentile_ms(50), abs=1)


def test_codel_queue_of_one_flow() -> None:
    # 45 ms per round trip: 100 / 45 + 1 segments of 1514 bytes beyond 5 ms.
    assert largest_queue_ms(40, CAPACITY) == pytest.approx(5 + 3.22 * 1.2112, abs=0.01)


def test_fair_queueing_divides_what_others_do_not_want() -> None:
    assert fair_shares((None, None)) == (0.5, 0.5)
    assert fair_shares((None, 0.1, None)) == pytest.approx((0.45, 0.1, 0.45))
    assert fair_shares((0.2, 0.1)) == pytest.approx((0.2, 0.1))


def test_jain_is_one_for_equal_rates_and_one_nth_for_a_single_one() -> None:
    assert jain((5, 5, 5)) == pytest.approx(1)
    assert jain((5, 0, 0, 0)) == pytest.approx(0.25)
    assert jain((0, 0)) == 1


def test_bandwidth_ratio_counts_packets_and_not_bytes() -> None:
    assert bandwidth_ratio(20, 20) == pytest.approx(66 / 1514)
    # 100 kbit/s are 189 ACKs per second, each for two segments.
    assert clocked_goodput_bytes_s(0.1) == pytest.approx(12_500 / 66 * 2 * 1448)


def test_mathis_in_bdps_is_the_same_formula() -> None:
    bdp = CAPACITY * 0.04
    own = mathis_bytes_s(1.0, 40) / (CAPACITY * 1448)
    assert mathis_utilisation(1.0, bdp) == pytest.approx(own)
    assert mathis_utilisation(0.0, bdp) == 1
    assert losses_per_bdp(1.0, 200) == pytest.approx(2)
    assert loss_event_pct(2.0, 4.0) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="at least one"):
        loss_event_pct(2.0, 0.5)
