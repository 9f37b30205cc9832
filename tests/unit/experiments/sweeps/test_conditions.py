"""The conditions of the lab `sweeps`."""

from __future__ import annotations

import shutil

import pytest

from labs.catalog import find
from labs.errors import Missing
from labs.experiments.sweeps import conditions as sweeps
from labs.experiments.sweeps.conditions import Parameters as Sweeps
from labs.guest.condition import Condition
from labs.launch import inventory

KIB, MIB = 1 << 10, 1 << 20


def every(**given: object) -> dict[str, Condition]:
    conditions = find("sweeps").conditions(Sweeps(size="full", **given))  # type: ignore[arg-type]
    return {condition.name: condition for condition in conditions}


def test_conditions_on_machines_have_a_rate_that_they_carry() -> None:
    given = Sweeps.testbed_defaults("vagrant", "small")
    assert (given["rate_mbit"], given["delay_ms"]) == (100, 20)
    assert Sweeps.testbed_defaults("virtual", "small") == {}


def test_tools_name_the_package_of_iperf3(monkeypatch: pytest.MonkeyPatch) -> None:
    which = shutil.which
    monkeypatch.setattr(
        shutil, "which", lambda name, **given: None if name == "iperf3" else which(name, **given)
    )
    with pytest.raises(Missing) as error:
        inventory.programs(sweeps.tools(every()["default"]))
    assert str(error.value) == "iperf3 is not installed. On Debian: apt-get install iperf3"
