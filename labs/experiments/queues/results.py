"""The results of a run of the lab `queues`: those of every run with several flows."""

from __future__ import annotations

from labs.read.readings.flows import traffic_of
from labs.read.readings.traffic_results import TrafficResults as Results
from labs.read.runs.run import Run

__all__ = ["Results"]


def parameter(run: Run, name: str) -> int | None:
    """A parameter of this lab that is not a setting: the packets of the FIFO, from its plan."""
    queue = traffic_of(run).path.queue("down") if name == "fifo_packets" else None
    return None if queue is None else queue.packets
