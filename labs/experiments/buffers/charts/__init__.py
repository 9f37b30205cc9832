"""Figures and tables of the lab `buffers`, each from a table of results, a run or a study."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labs.experiments.buffers.buffer_sizes import buffer_rows, in_kib
from labs.experiments.buffers.charts.buffer_sweep import against_buffer_size
from labs.experiments.buffers.charts.goodput_bars import by_condition
from labs.experiments.buffers.charts.kernels import kernels
from labs.experiments.buffers.charts.loss import loss
from labs.experiments.buffers.charts.timeline import timeline
from labs.experiments.buffers.charts.window_shares import adv_win_scale

if TYPE_CHECKING:
    from labs.read.display.rich_output import Table
    from labs.read.study import Study

__all__ = [
    "adv_win_scale",
    "against_buffer_size",
    "buffers_table",
    "by_condition",
    "kernels",
    "loss",
    "timeline",
]


def buffers_table(study: Study) -> Table:
    """One row per buffer of a study's runs: requested, granted, used, advertised, usable.

    Sizes are in KiB; `buffer_sizes.buffer_rows(study.runs)` has them in bytes.
    """
    return in_kib(buffer_rows(study.runs))
