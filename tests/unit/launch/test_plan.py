"""Runs that are planned: what progress calls them, and what their keys depend on."""

from __future__ import annotations

from pathlib import Path

from labs.catalog import find
from labs.drive.record.seal import key
from labs.experiments.buffers.conditions import Parameters as Buffers
from labs.experiments.nagle.conditions import Parameters as Nagle
from labs.launch.plan import plan, titles


def test_titles_are_those_of_every_run_that_is_certain() -> None:
    lab = find("buffers")
    asked = Buffers(testbed="namespaces", only="default,both", repetitions_min=2)
    assert titles(lab, asked) == ["default 1", "default 2", "both 1", "both 2"]
    assert titles(lab, Buffers(only="default,both")) == ["default", "both"]


def test_planned_repeated_differs_in_repetition_and_key_alone(tmp_path: Path) -> None:
    (first,) = plan(find("nagle"), Nagle(testbed="namespaces", only="off"))
    third = first.repeated(3)
    assert third.inputs == {**first.inputs, "repetition": 3}
    assert third.key == key(third.inputs) != first.key == first.repeated(1).key
    assert third.title == "off 3" and third.name.endswith(third.key[:12])
