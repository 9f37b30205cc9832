"""Where a stall of 40 ms comes from."""

from __future__ import annotations

from labs.drive.result_columns import Margin
from labs.experiments.nagle.conditions import GROUPS, conditions, lines, tools
from labs.experiments.nagle.parameters import Nagle as Parameters

__all__ = ["GROUPS", "MARGIN", "Parameters", "conditions", "lines", "tools"]

MARGIN = Margin(
    0.95,
    1.5,
    (
        "the wait is the kernel's timer on both; a machine adds the time that a hundred "
        "requests side "
        "by side take it, 14 ms in the article, and its tick may be longer or shorter"
    ),
)
