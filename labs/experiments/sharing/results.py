"""The results of a run of the lab `sharing`: those of every run with several flows."""

from __future__ import annotations

from labs.read.readings.traffic_results import TrafficResults as Results

__all__ = ["Results"]
