"""The lab `stack`: what the settings of a network stack do to the latency of a server."""

from __future__ import annotations

from labs.drive.result_columns import Margin
from labs.experiments.stack.conditions import GROUPS, conditions, machine_tools, tools
from labs.experiments.stack.knobs import lines
from labs.experiments.stack.parameters import Stack as Parameters

__all__ = ["GROUPS", "MARGIN", "Parameters", "conditions", "lines", "machine_tools", "tools"]

MARGIN = Margin(
    0.5, 2.0, "absolute latencies belong to a machine: only their ratios within it are compared"
)
