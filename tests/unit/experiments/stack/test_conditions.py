"""Conditions of the lab `stack`, and the settings that they change."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from labs.errors import BadInput, Missing
from labs.experiments.stack import conditions as module
from labs.experiments.stack.conditions import (
    BEYOND_ROUND_TRIP_USECS,
    MACHINES_ONLY,
    conditions,
    machine_tools,
    programs,
    tools,
)
from labs.experiments.stack.conditions import Parameters as Stack
from labs.experiments.stack.figures import findings
from labs.experiments.stack.places import pinning, places
from labs.experiments.stack.results import COMPARED
from labs.experiments.stack.settings import APART, FREE, SAME, Settings
from labs.guest.condition import read_settings


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """A machine with every program of the lab but one."""

    def lacks(program: str) -> None:
        for name in {needed for condition in FULL.values() for needed in programs(condition)} - {
            program
        }:
            (tmp_path / name).symlink_to("/bin/true")
        monkeypatch.setattr(module, "SYSTEM_PATH", str(tmp_path))

    return lacks


FULL = {
    condition.name: condition for condition in conditions(Stack(size="full", testbed="recorded"))
}
EVERY = {
    condition.name: condition for condition in conditions(Stack(size="full", testbed="vagrant"))
} | FULL
"""With the conditions of machines only."""
OF_SYSFS = {
    f"{name}-{connections}"
    for name in ("irqs-deferred", "rps-same", "queues-2")
    for connections in ("c1", "many")
} | {"work-queues-2-many"}
"""Conditions that read a file of /sys in the server's namespace."""


def settings(name: str) -> Settings:
    return read_settings(Settings, EVERY[name].settings)


def changed(first: Settings, other: Settings) -> set[str]:
    names = Settings.__dataclass_fields__
    return {name for name in names if getattr(first, name) != getattr(other, name)}


PAIRS = [(f.name, name, under) for f in COMPARED.factors for name, under in f.pairs.items()]


@pytest.mark.parametrize(("factor", "name", "against"), PAIRS)
def test_compared_conditions_differ_in_one_setting(factor: str, name: str, against: str) -> None:
    names = changed(settings(name), settings(against))
    assert names == {"queues", "threads"} if factor == "queues and threads" else len(names) == 1


@pytest.mark.parametrize("four", COMPARED.interactions.values(), ids=COMPARED.interactions)
def test_interactions_are_of_two_settings(four: tuple[str, ...]) -> None:
    neither, first, second, both = map(settings, four)
    first_names, other = changed(neither, first), changed(neither, second)
    assert len(first_names) == len(other) == 1 and first_names != other
    assert changed(neither, both) == first_names | other


@pytest.mark.parametrize(
    ("program", "left_out", "step"),
    [
        ("vegeta", {name for name in FULL if name.startswith(("open-", "closed"))}, "make vegeta"),
        ("nft", {name for name in FULL if "rules" in name}, "nftables"),
        ("nginx", {"nginx-c1", "nginx-many"}, "nginx"),
        ("unshare", OF_SYSFS, ""),
    ],
)
def test_conditions_leave_out_those_without_a_program(
    without: Callable[[str], None], program: str, left_out: set[str], step: str
) -> None:
    without(program)
    full = Stack(size="full")
    assert {condition.name for condition in conditions(full)} == FULL.keys() - left_out
    (remark,) = findings({}, full)["remarks"]
    assert remark.startswith(f"{program} is not installed. Run: ") and step in remark
    assert "\n" not in remark and set(remark.partition("Left out: ")[2].split(", ")) == left_out
    for name in left_out:
        (condition,) = conditions(Stack(only=name))  # asked for by name
        with pytest.raises(Missing, match=f"{program} is not installed"):
            tools(condition)


def test_conditions_without_a_compiler_are_those_of_nginx(without: Callable[[str], None]) -> None:
    without("gcc")
    assert {condition.name for condition in conditions(Stack(size="full"))} == {
        "nginx-c1",
        "nginx-many",
    }
    with pytest.raises(Missing, match="gcc is not installed"):
        conditions(Stack())


def test_recorded_conditions_need_no_program(without: Callable[[str], None]) -> None:
    without("wrk")
    recorded = conditions(Stack(size="full", testbed="recorded"))
    assert {condition.name for condition in recorded} == FULL.keys()


@pytest.mark.parametrize(
    ("pinning", "threads", "cpus", "server", "load"),
    [
        (APART, 1, (0, 1), (0,), (1,)),
        (APART, 2, (0, 1, 2, 3), (0, 1), (3,)),
        (APART, 2, (0, 1), (0, 1), (1,)),
        (APART, 1, (3,), (3,), (3,)),
        (SAME, 1, (0, 1), (0,), (0,)),
        (FREE, 1, (0, 1), (), ()),
    ],
)
def test_places_of_server_and_load(
    pinning: str,
    threads: int,
    cpus: tuple[int, ...],
    server: tuple[int, ...],
    load: tuple[int, ...],
) -> None:
    cpus_of = places(Settings(pinning=pinning, threads=threads), cpus)
    assert (cpus_of.server, cpus_of.load) == (server, load)


def test_tools_name_what_to_do_without_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Missing, match="sudo env") as error:
        tools(FULL["polling-c1"])
    assert "\n" not in str(error.value) and "virtual" not in str(error.value)


def test_conditions_refuse_a_capture() -> None:
    with pytest.raises(BadInput, match="--capture"):
        conditions(Stack(capture=True))


def test_conditions_of_machines_only_are_left_out_elsewhere() -> None:
    """A delay beyond the round trip of emulated machines; it can still be asked for by name."""
    assert EVERY.keys() - FULL.keys() == {MACHINES_ONLY}
    (condition,) = conditions(Stack(only=MACHINES_ONLY, testbed="recorded"))
    assert read_settings(Settings, condition.settings).rx_usecs == BEYOND_ROUND_TRIP_USECS


def test_conditions_on_machines_have_no_open_loop() -> None:
    """The box has no vegeta; the remark says so, and a condition asked for by name is an error."""
    full = Stack(size="full", testbed="vagrant")
    loops = {name for name, condition in FULL.items() if condition.group == "loops"}
    assert {condition.name for condition in conditions(full)} == EVERY.keys() - loops
    (remark,) = findings({}, full)["remarks"]
    assert "open-50" in remark and "Use --testbed namespaces" in remark
    with pytest.raises(BadInput, match="open-50: the box of the machines has no vegeta"):
        conditions(Stack(only="open-50", testbed="vagrant"))


@pytest.mark.parametrize("name", ["polling-c1", "nginx-c1", "polling-rules-100-c1"])
def test_machine_tools_are_those_of_the_machines(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gcc is needed here only, and root on the machines only."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    needed = machine_tools(FULL[name])
    assert "gcc" not in needed and {"ethtool", "unshare", "wrk"} <= set(needed)
    assert ("nft" in needed) == ("rules" in name) and ("nginx" in needed) == ("nginx" in name)


@pytest.mark.parametrize(
    ("asked", "cpus", "expected", "because"),
    [
        (Settings(), (0,), ((0,), (3,)), ""),
        (Settings(threads=2), (0, 1), ((0, 1), (3,)), ""),
        (Settings(threads=2), (0,), ((0,), (3,)), "CPUs: 1, needed: 2"),
        (Settings(pinning=SAME), (0, 1), ((0,), (3,)), "server and load are on two machines"),
        (Settings(pinning=FREE), (0, 1), ((), ()), ""),
    ],
)
def test_places_on_two_machines(
    asked: Settings, cpus: tuple[int, ...], expected: tuple[tuple[int, ...], ...], because: str
) -> None:
    """The load has the last CPU of its own machine, and shares none with the server."""
    cpus_of = places(asked, cpus, (2, 3))
    assert (cpus_of.server, cpus_of.load) == expected
    knob = pinning(asked, cpus, (2, 3))
    assert (knob.effective, knob.because) == (not because, because)
