"""Runs for notebooks (`labs.runs`): open, list, compare and pack them, and write them as one flat
table for other programs."""

from __future__ import annotations

from pathlib import Path

from labs.read.runs.archive import Packed, pack
from labs.read.runs.compare import Comparison
from labs.read.runs.compare import compare as compare_by
from labs.read.runs.listing import Entry, index
from labs.read.runs.run import Run, open_run
from labs.studies.run_table import flat_table, results_of, write_table

__all__ = [
    "Comparison",
    "Entry",
    "Packed",
    "Run",
    "compare",
    "flat_table",
    "index",
    "open_run",
    "pack",
    "results_of",
    "write_table",
]


def compare(a: str | Path, b: str | Path) -> Comparison:
    """Compare two sets of runs: identical bytes, equal results, or changed, and what changed.

    Each side is a run folder, a study file, a folder of runs, or a packed file of any of these.
    BadInput if a side has no run, or none in common with the other; Damaged for a damaged run.
    """
    return compare_by(a, b, results_of)
