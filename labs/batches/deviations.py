"""Deviations of a batch from the model, and its summary in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
import pandas
from pandas import DataFrame

from labs.drive.parameters.declare import plain
from labs.read.batch_index_schema import IndexColumn
from labs.read.claims.judge import NOT_SETTLED
from labs.read.display.format import heading, in_three_digits

NEAR_PCT = 5.0
EXACT_PCT = 0.1
"""Predictions whose deviations are no larger are not ranked."""


def deviations(rows: DataFrame, columns: Mapping[str, IndexColumn], places: list[str]) -> DataFrame:
    """One row per index row and predicted figure, with the largest deviation first.

    Columns: `places` (which identify a row), `figure`, `unit`, `measured`, `predicted` and `ratio`,
    the measured value divided by the predicted one. Rows are sorted by the absolute logarithm of
    the ratio, so that 0.5 and 2 are equally large. Excluded figures, and steady-state figures of a
    run that did not reach a steady state, are omitted.
    """
    by_figure = [
        _of_figure(rows, column, places)
        for column in columns.values()
        if column.predicted_by in columns and column.kind in (int, float)
    ]
    if not by_figure:
        return DataFrame(columns=[*places, "figure", "unit", "measured", "predicted"])
    every = pandas.concat(by_figure, ignore_index=True)
    with numpy.errstate(divide="ignore", invalid="ignore"):
        every["ratio"] = every["measured"] / every["predicted"]
        off = numpy.abs(numpy.log(every["ratio"]))
    order = off.sort_values(ascending=False, kind="stable").index
    in_order: DataFrame = every.loc[order].reset_index(drop=True)
    return in_order


def _of_figure(rows: DataFrame, column: IndexColumn, places: list[str]) -> DataFrame:
    rows = meaningful(rows, column)
    rows = rows[rows[column.predicted_by].notna()]
    figures: DataFrame = rows[places].assign(
        figure=column.name,
        unit=column.unit,
        measured=rows[column.name].astype(float),
        predicted=rows[column.predicted_by].astype(float),
    )
    return figures


def meaningful(rows: DataFrame, column: IndexColumn) -> DataFrame:
    """The rows whose figure has a meaning: the row is not excluded, and reached a steady state if
    the figure describes one."""
    rows = rows[rows[column.name].notna()]
    if "excluded" in rows:
        rows = rows[~rows["excluded"].eq(True)]
    if column.steady and "note_codes" in rows:
        unsettled = [NOT_SETTLED in str(codes).split() for codes in rows["note_codes"]]
        rows = rows[~numpy.array(unsettled, dtype=bool)]
    return rows


def describe_range(places: Sequence[str], made: DataFrame, column: IndexColumn) -> str:
    """The range of a figure, with the places of its ends: `places` are the columns that identify a
    row."""
    rows = meaningful(made, column)
    if rows.empty:
        return f"No row has a meaningful {column.name}."
    ends = rows.loc[[rows[column.name].idxmin(), rows[column.name].idxmax()]].to_dict("records")
    low, high = (f"{in_three_digits(row[column.name])} {column.unit}".strip() for row in ends)
    at_low, at_high = (_place(places, row) for row in ends)
    name = heading(column.name).partition(" (")[0]
    return f"{name} is between {low} ({at_low}) and {high} ({at_high})."


def describe_nearness(places: Sequence[str], deviations: DataFrame) -> str:
    """How near the figures are to their predictions; `deviations` has the largest first."""
    off = (deviations["ratio"] - 1).abs()
    near = int((off <= NEAR_PCT / 100).sum())
    if (off <= EXACT_PCT / 100).all():
        return f"All {len(off)} measured figures are within {EXACT_PCT:g} % of their prediction."
    row = deviations.iloc[0].to_dict()
    digits = 3 if abs(row["ratio"] - 1) > 0.005 else 4  # otherwise 1.004 would be 1
    return (
        f"{near} of {len(deviations)} measured figures are within {NEAR_PCT:g} % of their "
        f"prediction. The figure that deviates most is {row['figure']} at "
        f"{_place(places, row)}: {row['ratio']:.{digits}g} times its prediction."
    )


def _place(places: Sequence[str], row: Mapping[Any, Any]) -> str:
    return ", ".join(
        str(row[name]) if name == "condition" else f"{name} {plain(row[name])}" for name in places
    )
