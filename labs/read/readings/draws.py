"""Draws of a random process as one row: the median of runs that differ in their seed, its range,
and what a simulation has for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pandas import DataFrame

if TYPE_CHECKING:
    from pandas import Series


def draws_of(
    rows: DataFrame, by: Sequence[str], column: str, simulated: tuple[str, str, str]
) -> DataFrame:
    """One row per combination of the columns `by`, in the order of their first rows.

    The median of `column` is in `median`, its ends in `low` and `high`, all values in `values`,
    their number in `draws`; `simulated` are the columns with the middle and the ends of the
    simulation, whose medians are in `simulated`, `simulated_low` and `simulated_high`. Other
    columns have the value of the first run.
    """
    groups = (group for _, group in rows.groupby(list(by), sort=False))
    return DataFrame([_row(group, column, simulated) for group in groups])


def _row(rows: DataFrame, column: str, simulated: tuple[str, str, str]) -> dict[Any, Any]:
    values: Series[float] = rows[column].astype(float)
    covered = rows[rows[simulated[0]].notna()]
    middle = covered[simulated[0]].astype(float)
    model = [float(covered[name].astype(float).fillna(middle).median()) for name in simulated]
    names = ("simulated", "simulated_low", "simulated_high")
    return {
        **rows.iloc[0].to_dict(),
        "draws": len(values),
        "values": values.tolist(),
        "median": float(values.median()),
        "low": float(values.min()),
        "high": float(values.max()),
        **dict(zip(names, model, strict=True)),
    }
