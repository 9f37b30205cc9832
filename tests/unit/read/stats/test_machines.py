"""What machines said of themselves, as figures, and the rule that tells a disturbed run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from labs.read.parse import proc as parse
from labs.read.stats.machines import disturbances, machine_columns, machine_rows, machines
from tests.real_runs import real, real_study
from tests.repeated_runs import machine, repetition
from tests.repeated_runs import machines as three

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
