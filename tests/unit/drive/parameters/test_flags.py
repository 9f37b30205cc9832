"""What the command line takes on machines for a parameter that it is not given."""

from __future__ import annotations

from typing import TypeVar

import pytest

from labs.cli.__main__ import Arguments
from labs.drive.parameters.declare import LabParameters
from labs.drive.parameters.flags import add_flags, from_flags
from labs.experiments.buffers.conditions import SMALL_ON_MACHINES, conditions
from labs.experiments.buffers.parameters import Buffers
from labs.experiments.nagle.parameters import Nagle

P = TypeVar("P", bound=LabParameters)


def read(cls: type[P], *words: str) -> P:
    parser = Arguments(prog="labs run")
    add_flags(parser, cls)
    return from_flags(cls, parser.read(list(words)))


def parsed(*words: str) -> Buffers:
    return read(Buffers, *words)


@pytest.mark.parametrize(
    ("words", "rate_mbit", "transfer_mib"),
    [
        ((), 1000, 1024),
        (("--testbed", "namespaces"), 1000, 1024),
        (("--testbed", "vagrant"), 100, 128),
        (("--testbed", "vagrant", "--rate-mbit", "1000"), 1000, 128),
        (("--testbed", "vagrant", "--size", "full"), 1000, 1024),
    ],
)
def test_machines_are_asked_for_a_rate_that_they_carry(
    words: tuple[str, ...], rate_mbit: float, transfer_mib: int
) -> None:
    found = parsed(*words)
    assert (found.rate_mbit, found.transfer_mib) == (rate_mbit, transfer_mib)


def test_machines_are_asked_for_few_requests_at_a_time() -> None:
    assert read(Nagle).concurrency == 100
    assert read(Nagle, "--testbed", "vagrant").concurrency == 2
    assert read(Nagle, "--testbed", "vagrant", "--concurrency", "50").concurrency == 50


def test_size_small_is_six_conditions_on_machines() -> None:
    names = [condition.name for condition in conditions(parsed("--testbed", "vagrant"))]
    assert names == list(SMALL_ON_MACHINES) and len(names) == 6
    assert names[2] == "default"


def test_a_notebook_s_parameters_stay_as_they_are_written() -> None:
    assert Buffers(testbed="vagrant").rate_mbit == 1000
