"""The results of a run of the lab `sweeps`."""

from __future__ import annotations

from dataclasses import dataclass

from labs.drive.result_columns import Note, column
from labs.read.runs.run import Run


@dataclass(frozen=True, kw_only=True)
class Results:
    """The columns of the lab."""

    goodput_bytes_s: float | None = column("payload per second", unit="bytes/s", headline=True)
    notes: tuple[Note, ...] = ()


def results(run: Run) -> Results:
    return Results()
