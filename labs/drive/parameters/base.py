"""The parameters that every lab has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labs.drive.parameters.declare import Scalar, did_you_mean, parameter, validate
from labs.errors import BadInput

SIZES = ("small", "full")
TESTBEDS = ("virtual", "namespaces", "vagrant", "recorded")


@dataclass(frozen=True, kw_only=True)
class LabParameters:
    """What every lab takes; a lab's own class adds its fields to these.

    An instance is right by construction: BadInput, in one line, for any value that is not.
    """

    size: str = parameter(
        "small", choices=SIZES, help="number of conditions: a few, or all of them"
    )
    only: str = parameter(
        "", form="names separated by commas, or nothing for all", help="run only these conditions"
    )
    testbed: str = parameter("virtual", choices=TESTBEDS, help="where the hosts are")
    kernel: str = parameter(
        "6.1",
        pattern=r"[0-9]+\.[0-9]+(\.[0-9]+(-[0-9A-Za-z.+~]+)?)?|[0-9a-f]{8,64}",
        form='a version such as "6.1" or "6.1.192-2", or 8 digits or more of a kernel\'s digest',
        help="the kernel that the virtual testbed boots",
    )
    runs: str = parameter(
        "runs",
        pattern=r"[^\x00\n]*[^\x00\s][^\x00\n]*",
        form="a folder",
        flag="--into",
        help="the folder that keeps runs and studies",
    )
    seed: int = parameter(1, low=0, high=2**31 - 1, help="seed for all random choices")
    memory_mib: int = parameter(
        4096, unit="MiB", low=1024, high=65536, help="memory of the virtual testbed's kernel"
    )
    capture: bool = parameter(False, help="also keep the packets of both hosts")
    repetitions_min: int = parameter(
        5,
        low=1,
        high=1000,
        help="real-time testbeds: least number of runs per condition; below 5 no interval",
    )
    repetitions_max: int = parameter(
        10,
        low=1,
        high=1000,
        help="real-time testbeds: greatest number of runs per condition, disturbed runs included",
    )
    ci_width_pct: float = parameter(
        10.0,
        unit="%",
        low=0,
        high=1000,
        help="real-time testbeds: repeat a condition until its 95 % interval is at most this wide",
    )

    def __post_init__(self) -> None:
        validate(self)

    @classmethod
    def testbed_defaults(cls, testbed: str, size: str) -> Mapping[str, Scalar]:
        """The command line's defaults on a testbed and for a size, where they differ from those
        of the class."""
        return {}

    def chosen(self, conditions: Sequence[str]) -> tuple[str, ...]:
        """The names of `only` in the order of `conditions`, or all of them; BadInput if unknown."""
        wanted = [name.strip() for name in self.only.split(",") if name.strip()]
        for name in wanted:
            if name not in conditions:
                hint = did_you_mean(name, conditions) or "."
                raise BadInput(f"{name} is not a condition{hint} Allowed: {', '.join(conditions)}")
        return tuple(name for name in conditions if name in wanted or not wanted)
