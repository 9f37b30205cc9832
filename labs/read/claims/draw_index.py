"""The recorded draws of a lab: `draws-LAB.parquet`, an index as `labs batch` writes it, of several
seeds. Its rows judge claims with chance; the runs themselves are not kept."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from labs.drive.condition import Condition
from labs.drive.parameters.declare import declared
from labs.errors import Damaged, Missing
from labs.read.batch_index import Index, read_index
from labs.read.batch_index_schema import COPY_AGAIN, MADE, beside
from labs.read.claims.judged_runs import but_how_much
from labs.read.claims.verdict import Witness
from labs.read.lab import BESIDE_RESULTS, Lab
from labs.read.runs import recorded

Row = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Draw:
    """The rows of one seed, testbed and kernel, and the conditions as requested, by name; the rows
    have the columns of the lab's results under their own names."""

    parameters: Mapping[str, object]
    seed: int
    witness: Witness
    rows: Mapping[str, Row]
    conditions: Mapping[str, Condition]
    file: str


def recorded_draws(lab: Lab, of: Collection[str] | None = None) -> tuple[Draw, ...]:
    """The recorded draws of a lab: all of them, or those of the conditions and kernels of which a
    draw is a run with one of these digests. None without recorded data, or without pyarrow."""
    try:
        path = recorded.folder() / f"draws-{lab.name}.parquet"
        index = read_index(path) if path.is_file() else None
    except Missing:
        return ()
    if index is None:
        return ()
    if index.head.lab != lab.name:
        raise Damaged(f"{path} is an index of {index.head.lab}, not of {lab.name}. {COPY_AGAIN}")
    return tuple(_draws(lab, index, of))


def _draws(lab: Lab, index: Index, of: Collection[str] | None) -> Iterable[Draw]:
    rows = [row for row in index.rows.to_pylist() if row["status"] == MADE]
    release, testbed = beside("kernel", lab.Parameters), beside("testbed", lab.Parameters)

    def place(row: Row) -> tuple[object, ...]:
        how = but_how_much({name: row[name] for name in index.parameters if name != "seed"})
        return row[testbed], row[release], *how.values()

    named = {(*place(row), row["condition"]) for row in rows if of is None or row["digest"] in of}
    draws: dict[tuple[object, ...], dict[str, Row]] = {}
    for row in rows:
        if (*place(row), row["condition"]) in named:
            draws.setdefault((*place(row), row["seed"]), {})[row["condition"]] = row
    for rows_of_draw in draws.values():
        first = next(iter(rows_of_draw.values()))
        yield Draw(
            {name: first[name] for name in index.parameters},
            first["seed"],
            Witness(str(first[testbed]), str(first[release])),
            {name: _results(lab, row) for name, row in rows_of_draw.items()},
            {name: _condition(lab, row) for name, row in rows_of_draw.items()},
            index.path.name,
        )


def _results(lab: Lab, row: Row) -> Row:
    """The columns of results and facts of a row under the names that they have in a run."""
    columns = {name: beside(name, lab.Parameters) for name in (*lab.columns, *BESIDE_RESULTS)}
    return {name: row[column] for name, column in columns.items() if column in row}


def _condition(lab: Lab, row: Row) -> Condition:
    """The condition of a row as requested, computed from its parameters; the same for each seed."""
    names = declared(lab.Parameters).keys() - {"seed"}
    given = {name: row[name] for name in names if row.get(name) is not None}
    asked = lab.Parameters(**{**given, "only": row["condition"]})
    return next(
        condition for condition in lab.conditions(asked) if condition.name == row["condition"]
    )
