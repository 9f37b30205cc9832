"""The results of a run of the lab `queues`."""

from __future__ import annotations

from labs.read.readings.traffic_results import TrafficResults


class Results(TrafficResults):
    """The figures of one run: those of every run with several flows."""
