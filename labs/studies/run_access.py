"""Runs as notebooks reach them: `labs.runs.open_run`, `labs.runs.compare`, `labs.runs.index`."""

from __future__ import annotations

from pathlib import Path

from labs.catalog import find
from labs.read.runs.archive import Packed, pack
from labs.read.runs.compare import Comparison, Results
from labs.read.runs.compare import compare as compare_by
from labs.read.runs.listing import Entry, index
from labs.read.runs.run import Run, open_run

__all__ = [
    "Comparison",
    "Entry",
    "Packed",
    "Run",
    "compare",
    "index",
    "open_run",
    "pack",
    "results_of",
]


def results_of(run: Run) -> Results:
    """What the lab of a run finds in it, notes included; BadInput if that lab is not known."""
    found = find(run.lab).results(run)
    return {**found.values, "notes": [note.text for note in found.notes]}


def compare(a: str | Path, b: str | Path) -> Comparison:
    """Compare two sets of runs: identical bytes, equal results, or changed, and in what.

    A side is a run folder, a study file, a folder of runs or a packed file of any of these.
    BadInput if a side has no run, or none in common with the other; Damaged for a damaged run.
    """
    return compare_by(a, b, results_of)
