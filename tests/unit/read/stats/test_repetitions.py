"""Repetitions, machines and arrivals."""

from __future__ import annotations

from math import comb
from pathlib import Path
from typing import Any

import numpy
import pytest

from labs.read.parse import proc as parse
from labs.read.stats.arrivals import of_arrivals
from labs.read.stats.machines import disturbances, machine_columns, machine_rows, machines
from labs.read.stats.repetitions import FEWEST, LEVEL_PCT, of_interaction, of_median, of_ratio
from tests.real_runs import real, real_study
from tests.repeated_runs import machine, repetition
from tests.repeated_runs import machines as three

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


# As Linux 6.18 printed them, before a download and after it.
STAT = """\
cpu  1073658 35128 709504 705042 7317 0 4863 1015 0 0
cpu0 533304 16556 335043 379598 2299 0 524 505 0 0
cpu1 540354 18571 374460 325444 5018 0 4338 509 0 0
"""
STAT_AFTER = """\
cpu  1073661 35128 709521 705043 7317 0 4863 1015 0 0
cpu0 533305 16556 335052 379598 2299 0 524 505 0 0
cpu1 540355 18571 374468 325445 5018 0 4339 509 0 0
"""
TIMERS = "now at 12254707384004 nsecs\njiffies: 4297955911\n"
TIMERS_AFTER = "now at 12255713981035 nsecs\njiffies: 4297956163\n"


def test_cpu_times_since_an_earlier_look() -> None:
    before, after = parse.cpu_times(STAT), parse.cpu_times(STAT_AFTER)
    spent = {name: after[name].since(before[name]) for name in before}
    assert {name: one.total for name, one in spent.items()} == {"cpu": 21, "cpu0": 10, "cpu1": 11}
    assert spent["cpu0"].busy_pct == 100
    assert spent["cpu1"].busy_pct == pytest.approx(100 * 10 / 11)
    assert spent["cpu"].stolen_pct == 0


def test_cpu_times_stolen_is_not_busy() -> None:
    before, after = (
        parse.cpu_times(f"cpu {row} 0 0\n")["cpu"]
        for row in ("0 0 0 0 0 0 0 0", "10 0 10 60 10 0 0 10")
    )
    spent = after.since(before)
    assert (spent.total, spent.busy_pct, spent.stolen_pct) == (100, 20, 10)
    assert before.since(before).busy_pct is None


def test_hz_is_counted() -> None:
    assert parse.hz(TIMERS, TIMERS_AFTER) == 250
    assert parse.hz(TIMERS, TIMERS) is None
    assert parse.hz("", TIMERS_AFTER) is None
    # 187 ticks a second, which no kernel has.
    assert parse.hz(TIMERS, TIMERS_AFTER.replace("4297956163", "4297956099")) is None


def test_load_driver_and_offloads() -> None:
    assert parse.load("1.37 2.04 2.09 3/133 21867\n") == 1.37
    about = machine(tso="off")
    assert parse.driver(about["driver"]) == "virtio_net"
    assert parse.offloads(about["offloads"]) == {"tso": False, "gso": True, "gro": True}
    assert parse.driver("") is None and parse.offloads("") == {}


def test_machines_of_a_run(tmp_path: Path) -> None:
    run = repetition(tmp_path, real("both-1gib"), 1, machines=three(busy_pct=96.5, hz=1000))
    found = machines(run)
    assert list(found) == ["client", "here", "server"]
    client, server, here = found["client"], found["server"], found["here"]
    assert (client.busiest_pct, client.hz, client.cpus) == (96.5, 1000, 1)
    assert (server.busy_pct, server.stolen_pct, server.load_before) == (20, 0, 0.4)
    assert (server.driver, server.release) == ("virtio_net", "6.1.0-49-cloud-amd64")
    assert (client.asked_ms, here.asked_ms) == (100, None)
    assert client.period_ms == pytest.approx(100, abs=1)


def test_machines_and_disturbances_of_a_virtual_run_are_empty() -> None:
    run = real("both-1gib")
    assert machines(run) == {} and disturbances(run) == ()


@pytest.mark.parametrize(
    ("client", "said"),
    [
        ({}, ()),
        ({"stolen_pct": 2}, ()),
        ({"stolen_pct": 2.5}, ("client: 2.5 % of its CPU time stolen (allowed 2)",)),
        ({"load": 1.5}, ()),
        ({"load": 1.51}, ("client: load 1.5 before the run (allowed 1.5)",)),
        ({"busy_pct": 100}, ()),  # that is the run's own work
    ],
)
def test_disturbances_rule(tmp_path: Path, client: dict[str, Any], said: tuple[str, ...]) -> None:
    run = repetition(tmp_path, real("both-1gib"), 1, machines=three(**client))
    assert disturbances(run) == said


def test_disturbances_of_a_starved_sampler(tmp_path: Path) -> None:
    """In each of the real runs it sampled every 100 ms; here it says something else."""
    from tests.real_runs import with_file

    run = repetition(tmp_path / "runs", real("both-1gib"), 1)
    mean = f'"mean_period_ms":{machines(run)["server"].period_ms:.3f}'
    for period, marked in (("119.000", False), ("121.000", True), ("79.000", True)):
        other = with_file(
            run, tmp_path / period, "server/sampler.json", mean, f'"mean_period_ms":{period}'
        )
        assert bool(disturbances(other)) is marked, period
    assert disturbances(other) == ("server: sampled every 79 ms, not 100 (allowed 20 % off)",)


def test_machines_of_a_short_run_have_no_period(tmp_path: Path) -> None:
    found = machines(repetition(tmp_path, real("unshaped"), 1))
    assert found["client"].period_ms is None


def test_disturbances_of_a_link_not_as_asked(tmp_path: Path) -> None:
    run = repetition(tmp_path, real("both-1gib"), 1, problems=["RTT 260.00 ms"])
    assert disturbances(run) == ("link not as asked: RTT 260.00 ms",)


def test_machine_rows_and_columns(tmp_path: Path) -> None:
    (default,) = [run for run in real_study("6.1").runs if run.condition == "default"]
    runs = [
        repetition(tmp_path, default, number, machines=three(busy_pct=busy, tso="off"))
        for number, busy in enumerate((10, 30, 95), start=1)
    ]
    table = machine_rows([default], runs)
    assert list(table["testbed"]) == ["virtual", "vagrant", "vagrant", "vagrant"]
    assert list(table["machine"]) == ["both hosts", "client", "host", "server"]
    client = table.set_index("machine").loc["client"]
    shown = ("busiest CPU of any run, %", "all CPUs, %", "HZ")
    assert tuple(client[name] for name in shown) == (95, 30, 250)
    assert client["off"] == "tso" and table["off"].iloc[3] == "none"
    columns = machine_columns([default], runs)
    assert list(columns) == [
        "",
        "virtual, both hosts",
        "vagrant, client",
        "vagrant, host",
        "vagrant, server",
    ]
    assert dict(zip(columns[""], columns["vagrant, client"], strict=True))["driver"] == "virtio_net"
    assert machine_rows([], []).empty


SECOND_NS = 10**9


def test_of_arrivals_counts_from_the_first_to_the_last() -> None:
    found = of_arrivals([5 * SECOND_NS, 6 * SECOND_NS, 8 * SECOND_NS], [100, 200, 900])
    assert (found.first_ns, found.last_ns) == (5 * SECOND_NS, 8 * SECOND_NS)
    assert (found.payload_bytes, found.took_s) == (900, 3.0)
    assert found.goodput_bytes_s == 300.0


def test_of_arrivals_takes_the_last_third_as_steady() -> None:
    """Twice as fast from the second third on: 2 s at 100 bytes/s, then 4 s at 200."""
    times = [second * SECOND_NS for second in range(7)]
    found = of_arrivals(times, [0, 100, 200, 400, 600, 800, 1000])
    assert found.steady_bytes_s == pytest.approx(200)
    assert found.goodput_bytes_s == pytest.approx(1000 / 6)


def test_of_arrivals_interpolates_where_the_last_third_begins() -> None:
    """The third begins at 2 s, halfway between arrivals at 1 s and 3 s."""
    found = of_arrivals([0, SECOND_NS, 3 * SECOND_NS], [100, 200, 400])
    assert found.steady_bytes_s == pytest.approx(100)


@pytest.mark.parametrize(("transfer_bytes", "ends_s"), [(200, 1), (201, 2), (300, 2), (999, 3)])
def test_of_arrivals_ends_with_the_arrival_that_completes_the_transfer(
    transfer_bytes: int, ends_s: int
) -> None:
    times = [second * SECOND_NS for second in range(4)]
    found = of_arrivals(times, [100, 200, 300, 400], transfer_bytes)
    assert found.last_ns == ends_s * SECOND_NS


def test_of_arrivals_has_no_rate_for_one_arrival() -> None:
    found = of_arrivals([SECOND_NS], [1448])
    assert (found.goodput_bytes_s, found.steady_bytes_s) == (None, None)
    assert (found.payload_bytes, found.took_s) == (1448, 0.0)
