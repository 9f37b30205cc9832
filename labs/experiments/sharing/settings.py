"""The settings of a condition of the lab `sharing`: what its claims depend on. All that a run does
is in the plan of its traffic."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The parameters that the traffic of a condition was planned with; None for those that it does
    not use."""

    duration_s: float
    bottleneck_mbit: float | None = None
    crowd_mbit: float | None = None
    path_rtt_ms: float | None = None
