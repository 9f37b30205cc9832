"""The lab `sweeps`: goodput against the size of the socket buffers at both ends."""

from __future__ import annotations

from labs.experiments.sweeps.conditions import GROUPS, conditions, tools
from labs.experiments.sweeps.parameters import Sweeps as Parameters

__all__ = ["GROUPS", "Parameters", "conditions", "tools"]
