"""The recorded draws of a lab: `draws-LAB.parquet`, an index as `labs batch` writes it, of several
seeds. Its rows judge claims with chance; the runs themselves are not kept."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from labs.drive.condition import Condition
from labs.drive.parameters.declare import declared
from labs.errors import Damaged, Missing
from labs.read.batch_index import Index, read_index
from labs.read.batch_index_schema import COPY_AGAIN, MADE, beside
from labs.read.claims.evidence import Evidence
from labs.read.claims.judged_runs import but_how_much
from labs.read.lab import BESIDE_RESULTS, Lab
from labs.read.runs import recorded

Row = Mapping[str, Any]


def recorded_draws(
    lab: Lab, name: str = "", of: Collection[str] | None = None
) -> Iterable[Evidence]:
    """The recorded draws of a lab: all of them, or those of the conditions and kernels of which a
    draw is a run with one of these digests. None without recorded data, or without pyarrow."""
    try:
        path = recorded.folder() / f"draws-{lab.name}.parquet"
        index = read_index(path) if path.is_file() else None
    except Missing:
        return []
    if index is None:
        return []
    if index.head.lab != lab.name:
        raise Damaged(f"{path} is an index of {index.head.lab}, not of {lab.name}. {COPY_AGAIN}")
    return list(_draws(lab, index, name, of))


def _draws(lab: Lab, index: Index, name: str, of: Collection[str] | None) -> Iterable[Evidence]:
    made = [row for row in index.rows.to_pylist() if row["status"] == MADE]
    release, testbed = beside("kernel", lab.Parameters), beside("testbed", lab.Parameters)

    def parameters(row: Row) -> dict[str, Any]:
        return {name: row[name] for name in index.parameters}

    def place(row: Row) -> tuple[object, ...]:
        how = but_how_much(parameters(row) | {"seed": None})
        return row[testbed], row[release], *how.values()

    named = {(place(row), row["condition"]) for row in made if of is None or row["digest"] in of}
    draws: dict[tuple[object, ...], list[Row]] = {}
    for row in made:
        if (place(row), row["condition"]) in named:
            draws.setdefault((*place(row), row["seed"]), []).append(row)
    for rows in draws.values():
        results = {row["condition"]: _results(lab, row) for row in rows}
        yield Evidence(lab, {}, (), parameters(rows[0]), name, results, index.path.name)


def _results(lab: Lab, row: Row) -> Row:
    """The columns of results and facts of a row under the names that they have in a run."""
    columns = {name: beside(name, lab.Parameters) for name in (*lab.columns, *BESIDE_RESULTS)}
    results = {name: row[column] for name, column in columns.items() if column in row}
    return {**results, "seed": row["seed"], "asked": _condition(lab, row)}


def _condition(lab: Lab, row: Row) -> Condition:
    """The condition of a row as requested, computed from its parameters; the same for each seed."""
    names = declared(lab.Parameters).keys() - {"seed", "only"}
    given = {name: row[name] for name in names if row.get(name) is not None}
    (asked,) = (
        condition
        for condition in lab.conditions(lab.Parameters(**given, only=row["condition"]))
        if condition.name == row["condition"]
    )
    return asked
