"""Figures of the lab `windows`, each from a study or a run."""

from __future__ import annotations

from labs.experiments.windows.charts.budget import by_part
from labs.experiments.windows.charts.by_packet import by_packet
from labs.experiments.windows.charts.opening import opening, opening_by_kernel
from labs.experiments.windows.charts.small_multiples import over_kernels, over_scales

__all__ = ["by_packet", "by_part", "opening", "opening_by_kernel", "over_kernels", "over_scales"]
