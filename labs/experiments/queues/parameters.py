"""The parameters of the lab `queues`: the bottleneck link and its queue."""

from __future__ import annotations

from dataclasses import dataclass

from labs.drive.parameters.declare import LabParameters, parameter


@dataclass(frozen=True, kw_only=True)
class Queues(LabParameters):
    """The path; each condition has a queue, and one to four flows."""

    bottleneck_mbit: float = parameter(
        20.0,
        unit="Mbit/s",
        low=1,
        high=1000,
        help="rate of the bottleneck, for conditions about buffers, directions, ACKs and loss",
    )
    aqm_mbit: float = parameter(
        50.0,
        unit="Mbit/s",
        low=1,
        high=1000,
        help="rate of the bottleneck, for conditions that compare queues",
    )
    path_rtt_ms: float = parameter(
        40.0, unit="ms", low=1, high=1000, help="RTT of the path without a queue"
    )
    fifo_packets: int = parameter(
        1000,
        unit="packets",
        low=1,
        high=100_000,
        help="size of the FIFO that is compared with other queues",
    )
    duration_s: float = parameter(
        30.0,
        unit="s",
        low=5,
        high=1000,
        help="duration of the flows; those that compare queues last at most 20 s, those with "
        "random loss eight times as long, up to 1000 s",
    )
