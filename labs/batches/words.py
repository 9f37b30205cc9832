"""A summary of a batch in sentences, with the figures of its index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from labs.batches.deviations import meaningless
from labs.batches.index_schema import DAMAGED, FAILED, MADE, MISSING, IndexColumn
from labs.drive.parameters.declare import plain
from labs.read.display.format import heading, in_three_digits

if TYPE_CHECKING:
    from pandas import DataFrame

NEAR_PCT = 5.0
EXACT_PCT = 0.1
"""Predictions whose deviations are no larger are not ranked."""


def in_words(
    counts: Mapping[str, int],
    places: Sequence[str],
    made: DataFrame,
    headline: IndexColumn | None,
    deviations: DataFrame,
) -> str:
    """The size of the batch, the range of the headline figure, and the accuracy of the predictions.

    `places` are the columns that identify a row of `made`; `deviations` has the largest first.
    """
    said = [_amount(counts)]
    if headline is not None:
        said.append(_range(places, made, headline))
    if len(deviations):
        said.append(_nearness(places, deviations))
    return " ".join(said)


def _amount(counts: Mapping[str, int]) -> str:
    rows = f"{counts['points']} points with {counts['rows']} rows, of which {counts[MADE]} are made"
    lacking = [f"{counts[name]} {name}" for name in (MISSING, FAILED, DAMAGED) if counts[name]]
    return f"The batch has {rows}{' (' + ', '.join(lacking) + ')' if lacking else ''}."


def _range(places: Sequence[str], made: DataFrame, one: IndexColumn) -> str:
    known = made[made[one.name].notna() & ~meaningless(made, one)]
    if known.empty:
        return f"No row has a meaningful {one.name}."
    ends = known.loc[[known[one.name].idxmin(), known[one.name].idxmax()]].to_dict("records")
    low, high = (f"{in_three_digits(row[one.name])} {one.unit}".strip() for row in ends)
    at_low, at_high = (_place(places, row) for row in ends)
    name = heading(one.name).partition(" (")[0]
    return f"{name} is between {low} ({at_low}) and {high} ({at_high})."


def _nearness(places: Sequence[str], deviations: DataFrame) -> str:
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
