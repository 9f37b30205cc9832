"""What of the lab `queues` only its plan says."""

from __future__ import annotations

from labs.read.readings.flows import traffic_of
from labs.read.runs.run import Run


def parameter(run: Run, name: str) -> int | None:
    """A parameter of this lab that is not a setting: the packets of the FIFO, from its plan."""
    queue = traffic_of(run).path.queue("down") if name == "fifo_packets" else None
    return None if queue is None else queue.packets
