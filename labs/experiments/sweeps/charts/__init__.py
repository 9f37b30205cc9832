"""Figures of the lab `sweeps`, each from one or several studies."""

from __future__ import annotations

from labs.experiments.sweeps.charts.accuracy import measured_and_predicted
from labs.experiments.sweeps.charts.goodput import goodput_by_buffer
from labs.experiments.sweeps.charts.surface import surface
from labs.experiments.sweeps.charts.writes import in_flight_by_write

__all__ = ["goodput_by_buffer", "in_flight_by_write", "measured_and_predicted", "surface"]
