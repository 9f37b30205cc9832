"""The parameters of the lab `sharing`: the link that several flows share."""

from __future__ import annotations

from dataclasses import dataclass

from labs.drive.parameters.declare import LabParameters, parameter


@dataclass(frozen=True, kw_only=True)
class Sharing(LabParameters):
    """The path; each condition has flows that compete on it."""

    bottleneck_mbit: float = parameter(
        10.0, unit="Mbit/s", low=1, high=1000, help="rate of the bottleneck for pairs of flows"
    )
    crowd_mbit: float = parameter(
        50.0, unit="Mbit/s", low=1, high=1000, help="rate of the bottleneck for crowds and incast"
    )
    path_rtt_ms: float = parameter(
        40.0, unit="ms", low=1, high=1000, help="RTT of the path without a queue"
    )
    far_times: float = parameter(
        4.0, low=1, high=20, help="RTT of the distant flow as a multiple, where RTTs differ"
    )
    duration_s: float = parameter(
        60.0,
        unit="s",
        low=10,
        high=1000,
        help="duration of the flows of a pair; a pair with two RTTs, or at a buffer of 16 BDP, "
        "lasts four times as long, up to 3600 s",
    )
