"""Planned rows of batches, and their indexes, for tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from labs.batches.index_writer import IndexWriter, PlannedRow
from labs.catalog import find
from labs.drive.record.seal import key
from labs.read.batch_index import Index, read_index
from labs.read.lab import Lab
from tests.run_folders import inputs

AXES: Mapping[str, tuple[float, ...]] = {"delay_ms": (10.0, 50.0), "rate_mbit": (100.0, 1000.0)}


def planned(
    lab: Lab, folder: Path, points: Sequence[Mapping[str, Any]], conditions: Iterable[str]
) -> list[PlannedRow]:
    """A row per point and condition; the runs of `tests.run_folders`, told apart by their seed."""
    rows = []
    for at, values in enumerate(points):
        for name in conditions:
            identity = key(inputs(name, seed=1 + at))
            place = folder / f"{lab.name}-{name}-{identity[:12]}"
            parameters = lab.Parameters(**values)
            rows.append(PlannedRow(at, parameters, name, identity, place, "a group"))
    return rows


def index_of(path: Path, cells: Iterable[Mapping[str, Any]], **head: Any) -> Index:
    """The index of rows of `buffers` with these parameters and results, written and read.

    A cell is a result or a fact about the run by its name in the index; `parameters` has those of
    the point, and a row without `status` is made.
    """
    lab, wanted = find("buffers"), list(cells)
    points = list(dict.fromkeys(tuple(row["parameters"].items()) for row in wanted))
    rows = [
        PlannedRow(
            points.index(tuple(row["parameters"].items())),
            lab.Parameters(**row["parameters"]),
            str(row["condition"]),
            f"{place:064x}",
            path.parent / "none",
        )
        for place, row in enumerate(wanted)
    ]
    told = {"title": "A batch", "axes": AXES, **head}
    with IndexWriter(path, lab, rows, **told) as writer:
        for row, row_cells in zip(rows, wanted, strict=True):
            values = {
                name: row_cells[name]
                for name in row_cells
                if name not in ("parameters", "condition")
            }
            status = values.pop("status", "made")
            writer.fill(row.key, status, values.pop("message", None), values)
    return read_index(path)
