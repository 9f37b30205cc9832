"""Figures of one path: its BDP, losses, queues, windows and shares of flows."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from math import sqrt
from pathlib import Path
from statistics import mean

import pytest

from benchmarks.model import flow_of
from benchmarks.points import Point, read
from labs.experiments.buffers.results import of_client
from labs.guest.units import KIB, MIB
from labs.read.theory.bdp import (
    bandwidth_ratio,
    bdp_bytes,
    clocked_goodput_bytes_s,
    loss_event_pct,
    losses_per_bdp,
    mathis_bytes_s,
    mathis_utilisation,
    payload_share,
    sending_ms,
    utilisation_pct,
)
from labs.read.theory.bulk import LEAST_QUEUE_PACKETS, TOO_SHORT, transfer
from labs.read.theory.bulk_flow import Flow
from labs.read.theory.bulk_interval import TOO_WIDE, Interval, decided, interval, shown
from labs.read.theory.kernels import first_ratio
from labs.read.theory.queueing import (
    capacity_per_s,
    closed_loop_us,
    evenly_spaced_us,
    random_moments_us,
)
from labs.read.theory.queues import (
    cycle,
    full_buffer_bdp,
    largest_queue_ms,
    many_flows_utilisation,
    needed_bdp,
    reno_utilisation,
)
from labs.read.theory.sharing import (
    bbr_share,
    fair_shares,
    independent,
    jain,
    power_of_rtt,
    synchronised,
)
from labs.read.theory.windows import (
    connected_send_bytes,
    granted_bytes,
    granted_send_bytes,
    receive_window_bytes,
    scaling_ratio,
    segment_overhead_bytes,
    send_bound_bytes,
    smallest_bytes,
)
from tests.real_runs import real_study

MB = 1e6


def test_utilisation_pct_of_one_block_at_a_time() -> None:
    """A1.18: 1 MB at 100 MB/s takes 10 ms; the article divides by the wait alone."""
    assert sending_ms(MB, 100 * MB) == pytest.approx(10)
    assert utilisation_pct(MB, 100 * MB, 400) == pytest.approx(100 * 10 / 410)
    assert utilisation_pct(MB, 100 * MB, 200) == pytest.approx(100 * 10 / 210)


def test_utilisation_pct_of_the_textbook() -> None:
    """1000 bytes at 1 Gbit/s over 30 ms: the line is busy for 0.027 % of the time."""
    assert utilisation_pct(1000, 1e9 / 8, 30) == pytest.approx(0.027, abs=0.0005)
    assert utilisation_pct(1000, 1e9 / 8, 0) == 100


def test_bdp_bytes_and_payload_share() -> None:
    assert bdp_bytes(1000, 200) == 25e6
    assert bdp_bytes(1000, 400) == 50e6
    assert payload_share() == 1448 / 1514
    assert payload_share(1460, 54) == 1460 / 1514


def test_mathis_goes_with_one_over_rtt_and_the_root_of_the_loss() -> None:
    base = mathis_bytes_s(0.1, 40)
    assert mathis_bytes_s(0.1, 80) == pytest.approx(base / 2)
    assert mathis_bytes_s(0.4, 40) == pytest.approx(base / 2)
    assert mathis_bytes_s(0.1, 40, mss_bytes=724) == pytest.approx(base / 2)
    # MSS / RTT * 1.31 / sqrt(p), Mathis et al. 1997, table 1: 1448 bytes, 40 ms, one in a thousand.
    assert base == pytest.approx(1448 / 0.04 * 1.31 / sqrt(0.001))


def test_mathis_predicts_runs_from_the_losses_that_netem_counted() -> None:
    """CUBIC in its Reno-friendly region. 2 MiB are 1448 segments with some 20 losses; the root of
    such a count varies by 11 % (Poisson), and two standard deviations are allowed."""
    table = real_study("6.1").results()
    rows = table[table["condition"].str.startswith("loss-1-cubic")]
    assert len(rows) == 2
    for row in rows.to_dict("records"):
        predicted = mathis_bytes_s(row["lost_pct"], row["rtt_ms"])
        assert row["goodput_bytes_s"] == pytest.approx(predicted, rel=0.22)


@pytest.mark.parametrize(("loss_pct", "rtt_ms"), [(0, 40), (-1, 40), (1, 0)])
def test_mathis_refuses_what_has_no_value(loss_pct: float, rtt_ms: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        mathis_bytes_s(loss_pct, rtt_ms)


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


MEASURED: dict[str, list[float]] = json.loads(
    (Path(__file__).parents[3] / "fixtures" / "theory" / "queues.json").read_text()
)
"""Goodput in steady state and over all of the points of the set `queues`, in bytes per second, as
`make model` measured them on the virtual kernels."""
GOAL = 0.05
POINTS = read("queues")


def holds(low: float, high: float, measured: float) -> bool:
    return low <= measured <= high


def wide(point: Point) -> Interval | None:
    return interval(flow_of(point), point.transfer_bytes)


@pytest.mark.parametrize("point", POINTS, ids=lambda each: f"{each.name}-{each.kernel}")
def test_transfer_through_a_short_queue(point: Point) -> None:
    result, between = decided(flow_of(point), point.transfer_bytes), wide(point)
    steady, goodput = MEASURED[point.name]
    if result.cannot_say:
        assert result.steady_bytes_s == result.goodput_bytes_s == 0
        assert point.queue_packets < LEAST_QUEUE_PACKETS or result.cannot_say == TOO_WIDE
        return
    assert between is not None
    for predicted, ends, measured in (
        (result.steady_bytes_s, between.steady_bytes_s, steady),
        (result.goodput_bytes_s, between.goodput_bytes_s, goodput),
    ):
        assert holds(*ends, measured) or predicted == pytest.approx(measured, rel=GOAL)


def test_interval_has_the_loss_of_the_last_segment() -> None:
    """42.34 Mbit/s, 17.9 ms, a queue of 26 packets at a router, 6.1: the last segment of 5.7 MB was
    lost and repaired by a timeout. Over the last third 1.415 MB/s arrived, over all 1.646."""
    size = 5_684_145
    path = Flow(rate_mbit=42.34, rtt_ms=17.9, kernel="6.1", queue_packets=26, offloads=False)
    between = interval(replace(path, **of_client("discard", size, 65_536)), size)
    assert between is not None
    assert holds(*between.steady_bytes_s, 1.415e6) and holds(*between.goodput_bytes_s, 1.646e6)


def test_decided_is_silent_about_a_flow_with_two_states() -> None:
    """With segments of 524 bytes the queue of the sender may stay full of short packets, which
    carry 0.98 MB/s, or of long ones, which carry 3.3: single packets decide. 3.305 was measured."""
    path = Flow(rate_mbit=36.97, rtt_ms=45.995, kernel="7.2", queue_packets=54, mss_bytes=524)
    flow = replace(path, rcvbuf_bytes=830 << 10, write_bytes=8384)
    between = interval(flow, 6_000_000)
    assert between is not None
    assert decided(flow, 6_000_000).cannot_say == TOO_WIDE
    assert holds(*between.steady_bytes_s, 0.98e6) and holds(*between.steady_bytes_s, 3.305e6)


def test_interval_of_a_queue_that_overflows_is_shown() -> None:
    """It is at least 5 % wide at either end, and most points have one."""
    overflows = [each for each in POINTS if transfer(flow_of(each), each.transfer_bytes).overflows]
    assert len(overflows) > len(POINTS) / 3
    for each in overflows:
        result, between = transfer(flow_of(each), each.transfer_bytes), wide(each)
        assert between is not None and between == shown(flow_of(each), each.transfer_bytes)
        low, high = between.steady_bytes_s
        assert low <= 0.95 * result.steady_bytes_s < 1.05 * result.steady_bytes_s <= high


def test_decided_is_silent_about_a_queue_of_few_packets() -> None:
    path = Flow(rate_mbit=20, rtt_ms=40, kernel="6.1", offloads=False)
    result = [transfer(replace(path, queue_packets=each), 4_000_000) for each in (9, 10)]
    assert [each.cannot_say for each in result] == [TOO_SHORT, ""]
    assert [each.overflows for each in result] == [False, True]


SHARING_CAPACITY = 10e6 / 8 / 1514


def test_square_root_rule_gives_the_paper_s_utilisation() -> None:
    """Appenzeller, Keslassy and McKeown 2004, section 3: 98.99 % for 10,000 flows and
    1 / sqrt(n) BDPs."""
    assert needed_bdp(10_000) == pytest.approx(0.01)
    assert many_flows_utilisation(10_000, 0.01) == pytest.approx(0.9899, abs=5e-5)
    assert many_flows_utilisation(16, 0.25) < many_flows_utilisation(16, 0.5)


def test_bbr_takes_everything_below_one_bdp_and_half_of_a_deep_buffer() -> None:
    """Ware and others 2019, equations 9 to 11: without the time in ProbeRTT."""
    small = bbr_share(0.5, SHARING_CAPACITY, 40)
    probing = (0.02 + 0.2 + 0.04) / 10
    assert small == pytest.approx(1 - probing)
    deep = bbr_share(16, 100 * SHARING_CAPACITY, 40)
    probing = (0.64 + 0.2 + 0.04) / 10
    assert deep / (1 - probing) == pytest.approx(0.5 + 1 / 32, abs=0.001)


def test_reno_s_shares_go_with_the_square_of_the_rtt_if_losses_are_synchronised() -> None:
    """RFC 9438, section 3.3. With hardly any queue the RTTs are those of the path."""
    near, far = synchronised(("reno", "reno"), (20, 80), 10 * SHARING_CAPACITY, 0.5).shares
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
    large = synchronised(("cubic", "cubic"), (50, 200), 100 * SHARING_CAPACITY, 50.0).shares
    small = synchronised(("cubic", "cubic"), (5, 20), SHARING_CAPACITY, 1.0).shares
    assert large[0] / large[1] == pytest.approx(4, rel=0.35)
    assert small[0] / small[1] > 12


def test_a_queue_makes_shares_more_alike() -> None:
    empty, full = (
        synchronised(("reno", "reno"), (20, 80), 10 * SHARING_CAPACITY, size).shares
        for size in (0.5, 400.0)
    )
    assert full[1] > empty[1]
    assert sum(full) == pytest.approx(1)
    assert synchronised(("cubic", "cubic"), (40, 40), SHARING_CAPACITY, 33.0).shares == (0.5, 0.5)


def test_one_flow_of_the_model_is_the_sawtooth() -> None:
    one = synchronised(("reno",), (40,), 2 * SHARING_CAPACITY, 33.0)
    cycle_of_one = cycle("reno", 2 * SHARING_CAPACITY, 40.0, 33.0)
    assert one.utilisation_pct == pytest.approx(cycle_of_one.utilisation_pct, abs=1)
    assert one.queue_ms == pytest.approx(cycle_of_one.queue_percentile_ms(50), abs=1)


def test_codel_queue_of_one_flow() -> None:
    # 45 ms per round trip: 100 / 45 + 1 segments of 1514 bytes beyond 5 ms.
    assert largest_queue_ms(40, SHARING_CAPACITY) == pytest.approx(5 + 3.22 * 1.2112, abs=0.01)


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
    bdp = SHARING_CAPACITY * 0.04
    own = mathis_bytes_s(1.0, 40) / (SHARING_CAPACITY * 1448)
    assert mathis_utilisation(1.0, bdp) == pytest.approx(own)
    assert mathis_utilisation(0.0, bdp) == 1
    assert losses_per_bdp(1.0, 200) == pytest.approx(2)
    assert loss_event_pct(2.0, 4.0) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="at least one"):
        loss_event_pct(2.0, 0.5)


def test_granted_bytes_doubles_and_caps() -> None:
    """Doubled, not below the kernel's smallest, capped before it is doubled."""
    cap = 212992
    assert [granted_bytes(size, cap, "receive") for size in (1, 2304, 65536, cap, cap + 1)] == [
        2304,
        4608,
        131072,
        425984,
        425984,
    ]
    assert [granted_bytes(size, cap, "send") for size in (1, 2304, 4096)] == [4608, 4608, 8192]


def test_receive_window_bytes_to_the_byte() -> None:
    # rcv_ssthresh as inet_diag showed it in those runs, and as it is given for other kernels.
    assert receive_window_bytes(1048576, "6.1") == 522840
    assert receive_window_bytes(131072, "6.1") == 64088
    assert receive_window_bytes(524288, "6.1") == 260696
    assert receive_window_bytes(6291456, "6.12") == 4716786
    assert receive_window_bytes(104857600, "6.12") == 78641394
    assert receive_window_bytes(1048576, "6.12", offloads=False) == 625248
    # 6.1 with a buffer that had grown there: one segment less 84 bytes.
    assert abs(receive_window_bytes(6291456, "6.1") - 3144364) < 1448


def test_scaling_ratio_and_first_ratio() -> None:
    assert scaling_ratio() == 192
    assert scaling_ratio(1448, 2408) == 153
    # Debian's own kernels over veth, with and without offloads; a TUN device; MSS 1024.
    assert (scaling_ratio(2896, 3792), scaling_ratio(1448, 2344)) == (195, 158)
    assert (scaling_ratio(1448, 2304), scaling_ratio(1024, 2304)) == (160, 113)
    assert scaling_ratio(1, 10**6) == 1
    assert (first_ratio("6.6"), first_ratio("6.12")) == (65, 128)


def test_receive_window_bytes_ignores_adv_win_scale_from_6_6() -> None:
    old = [receive_window_bytes(MIB, "6.1", adv_win_scale=scale) for scale in (-2, -1, 0, 1, 2)]
    assert old == [
        MIB // 4 - 1448,
        MIB // 2 - 1448,
        MIB - 1448,
        MIB // 2 - 1448,
        MIB * 3 // 4 - 1448,
    ]
    new = {receive_window_bytes(MIB, "6.6", adv_win_scale=scale) for scale in (-2, 0, 1, 2)}
    assert len(new) == 1


def test_receive_window_bytes_of_a_locked_buffer() -> None:
    shares = [
        receive_window_bytes(MIB, kernel, locked=True) / MIB for kernel in ("6.8", "6.10", "6.11")
    ]
    assert shares == pytest.approx([0.254, 0.5, 0.75], abs=0.01)


def test_segment_overhead_bytes_and_send_bound_bytes() -> None:
    assert (segment_overhead_bytes("6.1"), segment_overhead_bytes("6.12")) == (1280, 960)
    # A small buffer holds whole super-packets of 65,160 bytes, at least one.
    assert send_bound_bytes(32768, "6.12") == 65160
    assert send_bound_bytes(131072, "6.12") == 130320
    assert send_bound_bytes(4194304, "6.1") < send_bound_bytes(4194304, "6.12")


def test_old_buffers_are_what_iperf_printed_in_the_article() -> None:
    """In its KByte of 1,024, with three digits: A5.1 has 19.3 KB to send, A5.3 2.23 KB for -w 1K,
    and A5.4 2 KB for -w 1G, which overflows."""
    sizes = (connected_send_bytes(), smallest_bytes()["receive"], smallest_bytes()["send"])
    assert [f"{size / KIB:.3g}" for size in sizes] == ["19.3", "2.23", "2"]


def test_granted_send_bytes_overflow_at_1_gib() -> None:
    """A5.4b: 1 GB is the most of requests that double; with -w 1G it is 2 KB."""
    assert [granted_send_bytes(mib * MIB) for mib in (1, 512, 1024)] == [2 * MIB, 1024 * MIB, 2048]
