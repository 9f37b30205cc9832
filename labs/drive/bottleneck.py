"""Conditions with flows over one bottleneck: each row of a lab's table changes a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from labs.drive.condition_table import Row, select
from labs.drive.parameters.declare import LabParameters, parameter
from labs.guest.condition import Condition
from labs.guest.flows import Flow, Requests, Traffic
from labs.guest.testbed.path import Direction, NetworkPath, Queue

FIFO, UNSHAPED = Queue(bdp=1.0), Direction()
rate = partial(parameter, unit="Mbit/s", low=1, high=1000)
path_rtt = partial(
    parameter, 40.0, unit="ms", low=1, high=1000, help="RTT of the path without a queue"
)
RATE_AND_RTT = {"bottleneck_mbit": "mbit", "path_rtt_ms": "rtt_ms"}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The traffic of a condition: `mbit` and `queue` are those towards the client, half of `rtt_ms`
    is the delay of each direction.

    The settings of a condition, on which claims depend, are its duration and the fields in
    `recorded`, by the names of the parameters that they come from.
    """

    mbit: float
    rtt_ms: float
    duration_s: float
    flows: tuple[Flow, ...] = (Flow(),)
    queue: Queue = FIFO
    loss_pct: float = 0.0
    loss_run: float | None = None
    up: Direction = UNSHAPED
    requests: Requests | None = None
    sample_ms: int = 100
    queue_ms: int = 100
    recorded: Mapping[str, str] = field(default_factory=lambda: RATE_AND_RTT)

    def condition(self, row: Row, p: LabParameters) -> Condition:
        """The condition of this row."""
        half_ms = self.rtt_ms / 2
        down = Direction(
            self.mbit, half_ms, loss_pct=self.loss_pct, loss_run=self.loss_run, queue=self.queue
        )
        traffic = Traffic(
            NetworkPath(down, replace(self.up, delay_ms=half_ms)),
            self.flows,
            self.duration_s,
            self.requests,
            self.sample_ms,
            self.queue_ms,
            p.capture,
        )
        names = {"duration_s": "duration_s", **self.recorded}
        settings = {name: getattr(self, value) for name, value in names.items()}
        return traffic.condition(row.name, p.testbed, settings=settings, group=row.group)


def planned(p: LabParameters, base: Plan, table: Iterable[Row]) -> tuple[Condition, ...]:
    """The conditions that the parameters select: those of `only`, or those of the size."""
    return tuple(row.change(base).condition(row, p) for row in select(p, table))
