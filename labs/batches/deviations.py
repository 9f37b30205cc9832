"""Deviations of a batch from the model: measured figures compared with their predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy
import pandas

from labs.batches.index_schema import IndexColumn
from labs.read.claims.judge import NOT_SETTLED

if TYPE_CHECKING:
    from pandas import DataFrame


def deviations(rows: DataFrame, columns: Mapping[str, IndexColumn], places: list[str]) -> DataFrame:
    """One row per index row and predicted figure, with the largest deviation first.

    Columns: `places` (which identify a row), `figure`, `unit`, `measured`, `predicted` and `ratio`,
    the measured value divided by the predicted one. Rows are sorted by the absolute logarithm of
    the ratio, so that 0.5 and 2 are equally large. Excluded figures, and steady-state figures of a
    run that did not reach a steady state, are omitted.
    """
    found = [
        _of_figure(rows, one, places)
        for one in columns.values()
        if one.predicted_by in columns and one.kind in (int, float)
    ]
    if not found:
        return pandas.DataFrame(columns=[*places, "figure", "unit", "measured", "predicted"])
    every = pandas.concat(found, ignore_index=True)
    with numpy.errstate(divide="ignore", invalid="ignore"):
        every["ratio"] = every["measured"] / every["predicted"]
        off = numpy.abs(numpy.log(every["ratio"]))
    order = off.sort_values(ascending=False, kind="stable").index
    found_in_order: DataFrame = every.loc[order].reset_index(drop=True)
    return found_in_order


def _of_figure(rows: DataFrame, one: IndexColumn, places: list[str]) -> DataFrame:
    known = rows[rows[one.name].notna() & rows[one.predicted_by].notna()]
    known = known[~meaningless(known, one)]
    found: DataFrame = known[places].assign(
        figure=one.name,
        unit=one.unit,
        measured=known[one.name].astype(float),
        predicted=known[one.predicted_by].astype(float),
    )
    return found


def meaningless(rows: DataFrame, one: IndexColumn) -> pandas.Series[bool]:
    """Whether a figure has no meaning, per row: the row is excluded, or the figure describes a
    steady state that the run did not reach."""
    found = rows["excluded"].eq(True) if "excluded" in rows else pandas.Series(False, rows.index)
    if one.steady and "note_codes" in rows:
        codes = rows["note_codes"].fillna("").map(str.split)
        found = found | codes.map(lambda words: NOT_SETTLED in words).astype(bool)
    return found
