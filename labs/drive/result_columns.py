"""What a lab declares of its results: columns, notes, and how far two testbeds may differ.

Standard library, so that a lab in one file can declare them where it also runs.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Margin:
    """How far the ratio of two testbeds may be from 1, written down before any run, and why."""

    low: float
    high: float
    reason: str


@dataclass(frozen=True)
class Note:
    """What a reader of a run's figures must know: `code` for programs, `text` for people.

    `excludes`: the run's headline figure means nothing, so it is not compared.
    """

    code: str
    text: str
    excludes: bool = False


@dataclass(frozen=True)
class Column:
    """A column of a lab's results.

    `predicted_by` names the column with the theory's value of the same figure; `hidden` columns
    are left out of the printed table; the first `headline` column that a run has a value in is
    what repetitions and testbeds are compared by. `steady`: it means something only in a run that
    has reached a steady state, which the run's notes deny with the code `not_settled`.
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
        Column(one.name, **one.metadata) for one in dataclasses.fields(results) if one.metadata
    )
