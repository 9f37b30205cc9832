"""The rows of a figure that is called with several studies, or with several tables of results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas
from pandas import DataFrame

from labs.read.theory.kernels import series

if TYPE_CHECKING:
    from labs.read.study import Study


def joined(*sources: DataFrame | Study) -> DataFrame:
    """One table of results, oldest kernel first, with each condition once per kernel. Studies
    without runs and tables without rows are left out."""
    tables = [
        source if isinstance(source, DataFrame) else source.results()
        for source in sources
        if len(source if isinstance(source, DataFrame) else source.runs)
    ]
    if not tables:
        return DataFrame()
    return by_kernel(pandas.concat(tables).drop_duplicates(["condition", "kernel"]))


def by_kernel(rows: DataFrame) -> DataFrame:
    """The rows, those of the oldest kernel first."""
    return rows.sort_values("kernel", key=lambda names: names.map(series), kind="stable")
