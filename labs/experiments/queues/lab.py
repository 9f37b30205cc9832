"""The lab `queues`: the bottleneck queue of a link, its delay, and what its size changes."""

from __future__ import annotations

from labs.drive.result_columns import Margin
from labs.drive.traffic import lines, tools
from labs.experiments.queues.conditions import GROUPS, conditions
from labs.experiments.queues.parameters import Queues as Parameters

__all__ = ["GROUPS", "MARGIN", "Parameters", "conditions", "lines", "tools"]

MARGIN = Margin(
    0.9,
    1.1,
    (
        "the queue decides the goodput in both testbeds; on machines the moments of losses, and so "
        "the phase of the sawtooth in the measured half, differ from run to run"
    ),
)
