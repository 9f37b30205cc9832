"""Runs that are planned: what progress calls them, and what their keys depend on."""

from __future__ import annotations

from pathlib import Path

from labs.catalog import find
from labs.drive.record.seal import key
from labs.experiments.buffers.conditions import Parameters as Buffers
from labs.experiments.nagle.conditions import Parameters as Nagle
from labs.launch.plan import least_repetitions, plan


def test_least_repetitions_are_the_runs_that_are_certain() -> None:
    assert least_repetitions(Buffers(testbed="namespaces", repetitions_min=2)) == 2
    assert least_repetitions(Buffers()) == 1


def test_planned_repeated_differs_in_repetition_and_key_alone(tmp_path: Path) -> None:
    (first,) = plan(find("nagle"), Nagle(testbed="namespaces", only="off"))
    third = first.repeated(3)
    assert third.inputs == {**first.inputs, "repetition": 3}
    assert third.key == key(third.inputs) != first.key == first.repeated(1).key
    assert third.title == "off 3" and third.name.endswith(third.key[:12])
