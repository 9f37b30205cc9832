"""What the results of every lab of the package have: the run, its settings, and its notes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial, wraps
from typing import TypeVar

from labs.drive.result_columns import Note, column, part
from labs.read.readings.instruments import ALLOWED_PCT, capture_losses
from labs.read.runs.run import Run

S = TypeVar("S")


hidden, hidden_column = partial(part, hidden=True), partial(column, hidden=True)
size = partial(hidden, unit="bytes")
"""Columns that the printed table omits."""


def from_run(compute: Callable[[Run], S]) -> cached_property[S]:
    """A value of a class `Results` that this function computes of its run."""

    @wraps(compute)
    def computed(results: RunResults) -> S:
        return compute(results.run)

    return cached_property(computed)


def settings_as(cls: type[S]) -> cached_property[S]:
    """The settings of a run as the dataclass of its lab, for a class `Results`."""

    def settings(run: Run) -> S:
        return run.settings_as(cls)

    settings.__annotations__["return"] = cls  # the types of columns that are a part of it
    return from_run(settings)


class RunResults:
    """The figures of one run; None for those that it does not have."""

    def __init__(self, run: Run) -> None:
        self.run = run

    @property
    def disagreement_pct(self) -> float | None:
        """The largest deviation of one instrument from another; None with only one."""
        return None

    def lab_notes(self) -> Iterator[Note]:
        """What only this lab has to say."""
        yield from ()

    def notes(self) -> Iterator[Note]:
        """What a reader of the figures must know; nothing for a regular run."""
        if not self.run.link.ok:
            yield Note("link", "link not as asked")
        yield from self.lab_notes()
        if self.run.ended == "limit":
            yield Note("limit", "ended by the time limit")
        if (apart := self.disagreement_pct) is not None and apart > ALLOWED_PCT:
            yield Note("instruments", f"instruments disagree by {apart:.1f} %")
        if lost := capture_losses(self.run):
            yield Note("capture_lost", f"the capture lost {lost} packets")
