"""Figures of the lab `stack`, each from a study whose conditions were repeated.

Disturbed runs are left out of all of them.
"""

from __future__ import annotations

from labs.experiments.stack.charts.distribution import distribution
from labs.experiments.stack.charts.effects import effects
from labs.experiments.stack.charts.load import load_and_latency
from labs.experiments.stack.charts.work import work_per_request

__all__ = ["distribution", "effects", "load_and_latency", "work_per_request"]
