"""The lab `nagle`: the 40 ms stall of Nagle's algorithm and delayed ACKs."""

from __future__ import annotations

from labs.drive.result_columns import Margin
from labs.experiments.nagle.conditions import GROUPS, conditions, lines, tools
from labs.experiments.nagle.parameters import Nagle as Parameters

__all__ = ["GROUPS", "MARGIN", "Parameters", "conditions", "lines", "tools"]

MARGIN = Margin(
    0.95,
    1.5,
    (
        "both testbeds wait for the kernel's timer; a machine adds the CPU time of 100 concurrent "
        "requests, 14 ms in the article, and its tick may differ"
    ),
)
