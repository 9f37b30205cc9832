"""Runs for notebooks (`labs.runs`): open, list, compare and pack them, and write them as one flat
table for other programs."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pandas

from labs.catalog import known
from labs.drive.record.disk import write_whole
from labs.errors import BadInput, Missing
from labs.read.runs.archive import Packed, pack
from labs.read.runs.compare import Comparison, Results
from labs.read.runs.compare import compare as compare_by
from labs.read.runs.listing import Entry, index
from labs.read.runs.run import Run, open_run
from labs.read.stats.machines import disturbances

__all__ = [
    "Comparison",
    "Entry",
    "Packed",
    "Run",
    "check_ending",
    "compare",
    "flat_table",
    "index",
    "open_run",
    "pack",
    "results_of",
    "write_table",
]

INPUTS = "inputs"
OWN = "run"
IDENTIFYING = 3
"""How many of a run's own columns precede its results: its name, its lab, its condition."""
CSV, PARQUET = ".csv", ".parquet"
ENDINGS = (PARQUET, CSV)
TYPES: tuple[tuple[set[type], Literal["boolean", "Int64", "Float64"]], ...] = (
    (set(), "Float64"),
    ({bool}, "boolean"),
    ({int}, "Int64"),
    ({int, float}, "Float64"),
)


def results_of(run: Run) -> Results:
    """The results of a run as its lab computes them, with notes; BadInput for an unknown lab."""
    found = known(run.lab).results(run)
    return {**found.values, "notes": [note.text for note in found.notes]}


def compare(a: str | Path, b: str | Path) -> Comparison:
    """Compare two sets of runs: identical bytes, equal results, or changed, and what changed.

    Each side is a run folder, a study file, a folder of runs, or a packed file of any of these.
    BadInput if a side has no run, or none in common with the other; Damaged for a damaged run.
    """
    return compare_by(a, b, results_of)


def flat_table(runs: Iterable[Run]) -> pandas.DataFrame:
    """One row per run: its name, its lab, its results, then its inputs as `inputs.*` by path.

    Missing inputs and missing figures are empty; notes and lists are joined with "; ". Every
    column has one type. If a lab has a column with a name that the table uses for the run itself,
    such as `ended`, the column is the lab's and the run's own is `run.ended`, in every row.
    BadInput if a lab has a column `inputs.*` or `run.*`.
    """
    every = list(runs)
    owns, results = [_own(run) for run in every], [_checked(run) for run in every]
    taken = {name for own in owns for name in own} & {name for one in results for name in one}
    rows = [
        _row(own, found, taken) | dict(_flattened(run.inputs, INPUTS))
        for run, own, found in zip(every, owns, results, strict=True)
    ]
    names = dict.fromkeys(name for row in rows for name in row)
    # False sorts before True: first the results, in their order, then the inputs.
    order = sorted(
        names,
        key=lambda name: (name.startswith(f"{INPUTS}."), name * name.startswith(f"{INPUTS}.")),
    )
    return pandas.DataFrame({name: _column([row.get(name) for row in rows]) for name in order})


def _column(values: list[Any]) -> pandas.Series[Any]:
    """The values with the one type that fits all of them; text if no other type does."""
    kinds = {type(value) for value in values if value is not None}
    for fitting, name in TYPES:
        if kinds <= fitting:
            return pandas.Series(values, dtype=name)
    texts = [None if value is None else str(value) for value in values]
    return pandas.Series(texts, dtype="string")


def check_ending(out: Path) -> None:
    """BadInput for a file that is neither .parquet nor .csv; Missing if .parquet needs pyarrow."""
    if out.suffix not in ENDINGS:
        raise BadInput(f"{out}: the name of a table must end in {' or '.join(ENDINGS)}")
    if out.suffix == PARQUET:
        try:
            import pyarrow  # noqa: F401, PLC0415  an extra
        except ImportError:
            raise Missing(
                f"{out}: {PARQUET} needs the package pyarrow, which is not installed. Install it: "
                f'pip install "tcp-lab-notebook[capture]"; {CSV} needs no package'
            ) from None


def write_table(table: pandas.DataFrame, out: Path) -> None:
    """Write a flat table in the format of the file's ending, completely or not at all."""
    check_ending(out)
    if out.suffix == CSV:
        content = table.to_csv(index=False, lineterminator="\n").encode()
    else:
        stream = io.BytesIO()
        table.to_parquet(stream, index=False)
        content = stream.getvalue()
    write_whole(out, content)


def _own(run: Run) -> dict[str, Any]:
    """What a table says about a run itself, besides its results: identification first."""
    own: dict[str, Any] = {
        "run": run.name,
        "lab": run.lab,
        "condition": run.condition,
        "ended": run.ended,
        "testbed": run.testbed,
        "kernel": run.kernel.release,
        "link": run.link.verdict,
        "key": run.key,
        "digest": run.digest,
    }
    if "repetition" in run.inputs:
        own["disturbed"] = list(disturbances(run))
    return own


def _row(own: Mapping[str, Any], results: Results, taken: Collection[str]) -> dict[str, Any]:
    """A run's own columns and its results; `taken` are the names that results use for theirs."""
    named = {(f"{OWN}.{name}" if name in taken else name): value for name, value in own.items()}
    first = dict(list(named.items())[:IDENTIFYING])
    return {name: _joined(value) for name, value in (first | dict(results) | named).items()}


def _checked(run: Run) -> Results:
    """The results of a run; BadInput for a column in the place of the table's own ones."""
    found = results_of(run)
    wrong = [name for name in found if name.startswith((f"{INPUTS}.", f"{OWN}."))]
    if wrong:
        raise BadInput(
            f"the lab {run.lab} has the column {wrong[0]}, but names that begin with {INPUTS}. or "
            f"{OWN}. are reserved for the table. Choose another name"
        )
    return found


def _flattened(value: object, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _flattened(part, f"{name}.{key}")
    else:
        yield name, _joined(value)


def _joined(value: object) -> object:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "; ".join(map(str, value))
    return value
