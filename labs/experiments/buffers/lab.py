"""How large socket buffers must be, and why."""

from __future__ import annotations

from labs.drive.result_columns import Margin
from labs.experiments.buffers.conditions import GROUPS, conditions, tools
from labs.experiments.buffers.parameters import Buffers as Parameters

__all__ = ["GROUPS", "MARGIN", "Parameters", "conditions", "tools"]

MARGIN = Margin(
    0.9,
    1.1,
    (
        "at rates that both machines can carry, the link check before a run allows deviations of "
        "5 % in the rate and 2 % in the RTT, and goodput varies by 2 % with the size of the "
        "client's reads; a larger deviation than all of these together needs another explanation"
    ),
)
