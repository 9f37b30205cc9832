"""How big socket buffers must be, when, and why."""

from __future__ import annotations

from labs.drive.result_columns import Margin
from labs.experiments.buffers.conditions import GROUPS, conditions, tools
from labs.experiments.buffers.parameters import Buffers as Parameters

__all__ = ["GROUPS", "MARGIN", "Parameters", "conditions", "tools"]

MARGIN = Margin(
    0.9,
    1.1,
    (
        "at rates that both machines carry, the check before a run lets the rate be 5 % off "
        "and the "
        "round trip 2 %, and the size of the client's reads moves goodput by 2 %; what is "
        "off by more "
        "than all of these together is no longer the same experiment"
    ),
)
