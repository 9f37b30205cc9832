"""The parameters of the lab `stack`: how long each load lasts, and what it asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from labs.drive.parameters.declare import LabParameters, Scalar, parameter

TESTBEDS = ("namespaces", "vagrant", "recorded")
"""Testbeds with a wall clock. In virtual time the CPU works in no time."""


@dataclass(frozen=True, kw_only=True)
class Stack(LabParameters):
    """A server and a load, on one machine or on two; each condition changes one setting."""

    testbed: str = parameter(
        "namespaces", choices=TESTBEDS, help="where the hosts are; this lab needs a wall clock"
    )
    duration_s: int = parameter(1, unit="s", low=1, high=60, help="duration of each load")
    connections: int = parameter(
        100, low=2, high=1000, help="connections of the conditions with many of them"
    )
    work_us: int = parameter(
        200,
        unit="us",
        low=10,
        high=100_000,
        help="CPU time per request of the open and closed loops: one thread serves at most "
        "1,000,000 / WORK_US requests per second",
    )

    @classmethod
    def testbed_defaults(cls, testbed: str, size: str) -> Mapping[str, Scalar]:
        """Few repetitions in size small, which is to end within minutes."""
        return {"repetitions_max": 6, "ci_width_pct": 20.0} if size == "small" else {}
