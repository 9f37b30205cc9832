"""The lab `windows`: the contents of a receive buffer, and the growth of its window."""

from __future__ import annotations

from labs.drive.result_columns import Margin
from labs.experiments.windows.conditions import GROUPS, conditions, lines, tools
from labs.experiments.windows.parameters import Windows as Parameters

__all__ = ["GROUPS", "MARGIN", "Parameters", "conditions", "lines", "tools"]

MARGIN = Margin(
    0.95,
    1.05,
    (
        "the window decides how much is queued, in both testbeds by the same code; only the memory "
        "that a packet takes depends on the device"
    ),
)
