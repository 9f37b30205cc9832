"""What a lab declares about its results: columns, notes, and how far two testbeds may differ.

Standard library only, because a lab in one file declares them in the file that a run executes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, Self, TypeVar, overload

from labs.drive.parameters.declare import did_you_mean
from labs.errors import BadInput

T_co = TypeVar("T_co", covariant=True)


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
    reached a steady state; a note with the code `not_settled` says that it did not. A `costly`
    column is computed only if it is read, all others together.
    """

    name: str
    unit: str
    meaning: str
    predicted_by: str | None = None
    hidden: bool = False
    headline: bool = False
    steady: bool = False
    costly: bool = False


class ComputedColumn(Generic[T_co]):
    """A column of a class `Results` with the method that computes it, once per run."""

    def __init__(self, compute: Callable[[Any], T_co], declared: Column) -> None:
        self.compute, self.declared = compute, declared

    @overload
    def __get__(self, results: None, owner: type) -> Self: ...

    @overload
    def __get__(self, results: object, owner: type) -> T_co: ...

    def __get__(self, results: object, owner: type) -> Self | T_co:
        if results is None:
            return self
        values, name = results.__dict__, self.declared.name
        if name not in values:
            values[name] = self.compute(results)
        value: T_co = values[name]
        return value

    def __set__(self, results: object, value: object) -> NoReturn:
        """TypeError: else an attribute `run` would be taken for the value of a column `run`."""
        raise TypeError(f"{self.declared.name} is a column: give the attribute another name")


def column(
    meaning: str,
    *,
    unit: str = "",
    predicted_by: str | None = None,
    hidden: bool = False,
    headline: bool = False,
    steady: bool = False,
    costly: bool = False,
) -> Callable[[Callable[[Any], T_co]], ComputedColumn[T_co]]:
    """Declare that a method of a lab's class `Results` computes the column of its name; see
    `Column`. BadInput for a column that the class declares twice."""
    body = sys._getframe(1).f_locals  # what the class has defined so far

    def declare(compute: Callable[[Any], T_co]) -> ComputedColumn[T_co]:
        name = compute.__name__
        if name in body:
            raise BadInput(f"Results declares {name} twice. Remove one")
        declared = Column(
            name, unit, meaning, predicted_by, hidden, headline, steady=steady, costly=costly
        )
        return ComputedColumn(compute, declared)

    return declare


def computed_columns(results: type) -> dict[str, ComputedColumn[Any]]:
    """The columns of a class `Results` by name, in the order of their definition, those of a base
    class first. BadInput for a prediction that is not a column."""
    columns = {
        name: value
        for part in reversed(results.__mro__)
        for name, value in vars(part).items()
        if isinstance(value, ComputedColumn)
    }
    for name, value in columns.items():
        predicted_by = value.declared.predicted_by
        if predicted_by is not None and predicted_by not in columns:
            raise BadInput(
                f"{name} is predicted_by {predicted_by}, which is not a "
                f"column{did_you_mean(predicted_by, columns)}"
            )
    return columns


def columns_of(results: type) -> tuple[Column, ...]:
    """The declared columns of a class `Results`; BadInput as `computed_columns`."""
    return tuple(value.declared for value in computed_columns(results).values())


def values_of(results: object) -> dict[str, Any]:
    """The values of all columns of a lab's `Results`, by name."""
    return {name: getattr(results, name) for name in computed_columns(type(results))}
