"""Figures and tables of the lab `buffers`, each from a table of results, a run or a study."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labs.analysis.buffer_rows import buffer_rows
from labs.charts.conditions import by_condition
from labs.charts.kernels import kernels
from labs.charts.loss import loss
from labs.charts.shares import adv_win_scale
from labs.charts.sweep import against_buffer_size
from labs.charts.timeline import timeline

if TYPE_CHECKING:
    from labs.analysis.shown import Table
    from labs.study import Study

__all__ = ["adv_win_scale", "against_buffer_size", "buffers_table", "by_condition", "kernels",
           "loss", "timeline"]


def buffers_table(study: Study) -> Table:
    """Every buffer of a study's runs: requested, granted, used, advertised, what that allows."""
    return buffer_rows(study.runs)
