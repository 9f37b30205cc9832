"""Runs for notebooks (`labs.runs`): open and compare them, and write them as one flat table for
other programs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pandas import DataFrame

from labs.catalog import loaded
from labs.read.exports import flat_table as tables
from labs.read.runs.compare import Comparison, Results
from labs.read.runs.compare import compare as compare_by
from labs.read.runs.run import Run, open_run

__all__ = ["open_run"]


def results_of(run: Run) -> Results:
    """The results of a run as its lab computes them, with notes; BadInput for an unloaded lab."""
    results = loaded(run.lab).results(run)
    return {**results.values, "notes": [note.text for note in results.notes]}


def flat_table(runs: Iterable[Run]) -> DataFrame:
    """One row per run: its results and its inputs (`labs.read.exports.flat_table`)."""
    return tables.flat_table(runs, results_of)


def write_table(table: DataFrame, out: Path) -> tuple[Path, ...]:
    """Write a flat table as .csv or .parquet, with units and meanings; returns the files."""
    return tables.write_table(table, out, loaded)


def compare(a: str | Path, b: str | Path) -> Comparison:
    """Compare two sets of runs: identical bytes, equal results, or changed, and what changed.

    Each side is a run folder, a study file, a folder of runs, or a packed file of any of these.
    BadInput if a side has no run, or none in common with the other; Damaged for a damaged run.
    """
    return compare_by(a, b, results_of)
