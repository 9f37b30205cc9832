"""The lab `sweeps`: goodput against the size of the socket buffers at both ends."""

from __future__ import annotations

from labs.drive.result_columns import Margin
from labs.experiments.sweeps.conditions import GROUPS, conditions, tools
from labs.experiments.sweeps.parameters import Sweeps as Parameters

__all__ = ["GROUPS", "MARGIN", "Parameters", "conditions", "tools"]

MARGIN = Margin(
    0.85,
    1.1,
    (
        "the link check before a run allows deviations of 5 % in the rate and 2 % in the RTT; a "
        "small buffer passes once per round trip, which a machine's own work lengthens by up to a "
        "millisecond of 20"
    ),
)
