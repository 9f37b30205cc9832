"""What a lab declares about its results: columns, notes, and how far two testbeds may differ.

Standard library only, because a lab in one file declares them in the file that a run executes.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Margin:
    """The range of the ratio of two testbeds within which they agree, fixed before any run."""

    low: float
    high: float
    reason: str


@dataclass(frozen=True)
class Note:
    """A remark about the figures of a run: `code` for programs, `text` for people.

    `excludes`: the headline figure of the run is meaningless, so it is not compared.
    """

    code: str
    text: str
    excludes: bool = False


@dataclass(frozen=True)
class Column:
    """A column of a lab's results.

    `predicted_by` names the column with the predicted value of the same figure. `hidden` columns
    are omitted from the printed table. Repetitions and testbeds are compared by the first
    `headline` column in which a run has a value. A `steady` column is meaningful only if the run
    reached a steady state; a note with the code `not_settled` says that it did not.
    """

    name: str
    unit: str
    meaning: str
    predicted_by: str | None = None
    hidden: bool = False
    headline: bool = False
    steady: bool = False


def column(
    meaning: str,
    *,
    unit: str = "",
    predicted_by: str | None = None,
    hidden: bool = False,
    headline: bool = False,
    steady: bool = False,
) -> Any:
    """Declare one field of a lab's class `Results`; see `Column`."""
    return dataclasses.field(
        default=None,
        metadata={
            "unit": unit,
            "meaning": meaning,
            "predicted_by": predicted_by,
            "hidden": hidden,
            "headline": headline,
            "steady": steady,
        },
    )


def columns_of(results: type) -> tuple[Column, ...]:
    """The declared columns of a class `Results`, in order."""
    return tuple(
        Column(field.name, **field.metadata)
        for field in dataclasses.fields(results)
        if field.metadata
    )
