"""A lab as a value: what shared code needs to know of it, and may know of it.

`labs.catalog` makes it and hands it down; nothing below the catalog looks a lab up by name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from labs.drive.condition import Condition
from labs.drive.parameters.base import LabParameters
from labs.errors import BadInput

if TYPE_CHECKING:
    from labs.read.runs.run import Run

NOTES = "notes"
"""The field of a lab's results that holds what a reader of the figures must know."""


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


@dataclass(frozen=True)
class Found:
    """What a lab finds in a run: plain values by column, and notes."""

    values: Mapping[str, Any]
    notes: tuple[Note, ...] = ()

    def has_note(self, code: str) -> bool:
        """Whether a note with this code is among them."""
        return any(note.code == code for note in self.notes)


@dataclass(frozen=True, eq=False)
class Lab:
    """A lab.

    `experiment` is the module with `measure(bench, condition)`, which a run loads. `part(name)`
    loads a module of the lab ("results", "narrative", "charts", "claims"), or gives None if it has
    none. `tools` names the programs that a condition starts, `lines` the commands that it adds to
    those of its link. `ledger` is the file with an
    article's claims, `source` the file of a reader's own lab, which holds every part.
    """

    name: str
    title: str
    Parameters: type[LabParameters]
    all_conditions: Callable[[Any], tuple[Condition, ...]]
    experiment: str
    part: Callable[[str], ModuleType | None]
    tools: Callable[[Condition], tuple[str, ...]] = lambda condition: ()
    lines: Callable[[Condition], tuple[tuple[str, tuple[str, ...]], ...]] = lambda condition: ()
    ledger: Path | None = None
    source: Path | None = None
    _margin: Margin | None = None
    _found: dict[Run, Found] = field(default_factory=dict, repr=False)
    _conditions: dict[LabParameters, tuple[Condition, ...]] = field(
        default_factory=dict, repr=False
    )

    def conditions(self, p: LabParameters) -> tuple[Condition, ...]:
        """What is run for these parameters, `only` applied; BadInput if it names what is not.

        Computed once: a notebook's check refuses what cannot be, and its study runs the same.
        """
        if p not in self._conditions:
            every = self.all_conditions(p)
            chosen = p.chosen([condition.name for condition in every])
            self._conditions[p] = tuple(one for one in every if one.name in chosen)
        return self._conditions[p]

    def require(self, part: str) -> ModuleType:
        """A part of the lab; BadInput if it has none."""
        module = self.part(part)
        if module is None:
            raise BadInput(f"the lab {self.name} has no {part}")
        return module

    @cached_property
    def columns(self) -> Mapping[str, Column]:
        """The columns that the lab's `Results` declares, by name; none for results in a dict."""
        declared = getattr(self.require("results"), "Results", None)
        return {} if declared is None else {one.name: one for one in columns_of(declared)}

    def results(self, run: Run) -> Found:
        """What the lab finds in a run; computed once for each run."""
        if run not in self._found:
            self._found[run] = _as_found(self.require("results").results(run))
        return self._found[run]

    def headline(self, run: Run) -> tuple[str, float] | None:
        """The name and value of the figure that runs are compared by; None for a run without."""
        found = self.results(run)
        if any(note.excludes for note in found.notes):
            return None
        return next(
            (
                (name, float(found.values[name]))
                for name, one in self.columns.items()
                if one.headline and found.values.get(name) is not None
            ),
            None,
        )

    def prediction(self, run: Run) -> float | None:
        """What the theory has for the headline figure of a run; None where it has nothing."""
        figure = self.headline(run)
        predicted_by = None if figure is None else self.columns[figure[0]].predicted_by
        value = None if predicted_by is None else self.results(run).values.get(predicted_by)
        return None if value is None else float(value)

    @property
    def margin(self) -> Margin:
        """Within what two testbeds agree; BadInput if the lab has not written it down."""
        if self._margin is None:
            raise BadInput(
                f"the lab {self.name} has no margin within which two testbeds agree. "
                "Add one to the lab: MARGIN = Margin(0.9, 1.1, reason), from "
                "labs.read.lab"
            )
        return self._margin


def _as_found(results: Any) -> Found:
    """A lab's results as values and notes: from its dataclass, or from a reader's own dict."""
    if dataclasses.is_dataclass(results) and not isinstance(results, type):
        values = {one.name: getattr(results, one.name) for one in dataclasses.fields(results)}
    else:
        values = dict(results)
    notes = values.pop(NOTES, ()) or ()
    notes = (notes,) if isinstance(notes, (str, Note)) else tuple(notes)
    return Found(
        values, tuple(note if isinstance(note, Note) else Note("", str(note)) for note in notes)
    )
