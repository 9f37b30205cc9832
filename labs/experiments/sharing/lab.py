"""The lab `sharing`: how flows share a link, by control, RTT, start and number."""

from __future__ import annotations

from labs.drive.result_columns import Margin
from labs.drive.traffic import lines, tools
from labs.experiments.sharing.conditions import GROUPS, conditions
from labs.experiments.sharing.parameters import Sharing as Parameters

__all__ = ["GROUPS", "MARGIN", "Parameters", "conditions", "lines", "tools"]

MARGIN = Margin(
    0.9,
    1.1,
    (
        "the sum of the flows fills the link in both testbeds; on machines the moments of losses, "
        "and so the shares, differ from run to run"
    ),
)
