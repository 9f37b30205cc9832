"""Runs as one flat table for other programs, and what its columns mean."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pandas

from labs.drive.parameters.declare import declared
from labs.drive.record.disk import write_whole
from labs.errors import BadInput, Missing
from labs.read.display.format import unit_of
from labs.read.exports.described_columns import Described, as_parquet, as_text, table_schema
from labs.read.lab import Lab
from labs.read.runs.compare import Results
from labs.read.runs.run import Run
from labs.read.stats.machines import disturbances

INPUTS = "inputs"
OF_RUN = "run"
IDENTIFYING = 3
"""How many of the columns about a run precede its results: its name, its lab, its condition."""
CSV, PARQUET = ".csv", ".parquet"
ENDINGS = (PARQUET, CSV)
SCHEMA = ".schema.json"
TYPES: tuple[tuple[set[type], Literal["boolean", "Int64", "Float64"]], ...] = (
    (set(), "Float64"),
    ({bool}, "boolean"),
    ({int}, "Int64"),
    ({int, float}, "Float64"),
)
LINK = f"{INPUTS}.condition.link."
PARTS = {
    LINK: "requested link",
    f"{INPUTS}.condition.settings.": "setting of the condition",
    f"{INPUTS}.condition.sysctls.": "sysctl set on this host",
    f"{INPUTS}.condition.": "condition",
    f"{INPUTS}.kernel.": "kernel",
    f"{INPUTS}.libraries.": "SHA-256 of a library of the tools",
    f"{INPUTS}.tools.": "SHA-256 of a tool",
    f"{INPUTS}.code": "SHA-256 of the code that the run can execute",
}
"""What the inputs of a run are, by how their names begin; the first that fits."""
MEANINGS = {
    "run": "name of the run's folder",
    "lab": "lab",
    "condition": "condition",
    "notes": "remarks about the figures",
    "ended": "complete, or limit if the time limit ended the run",
    "testbed": "where the hosts are",
    "kernel": "release of the kernel",
    "link": "verdict on the link as measured",
    "key": "SHA-256 of the inputs",
    "digest": "SHA-256 of the run's files",
    "disturbed": "what disturbed the run, in real time",
}
"""The columns of the run itself."""


def flat_table(runs: Iterable[Run], results_of: Callable[[Run], Results]) -> pandas.DataFrame:
    """One row per run: its name, its lab, its results, then its inputs as `inputs.*` by path.

    Missing inputs and missing figures are empty; notes and lists are joined with "; ". Every
    column has one type. If a lab has a column with a name that the table uses for the run itself,
    such as `ended`, the column is the lab's and that of the run is `run.ended`, in every row.
    """
    every = [(run, _of_the_run(run), results_of(run)) for run in runs]
    taken = {name for _, columns, _ in every for name in columns}
    taken &= {name for *_, results in every for name in results}
    rows = [
        _row(columns, results, taken) | dict(_flattened(run.inputs, INPUTS))
        for run, columns, results in every
    ]
    names = dict.fromkeys(name for row in rows for name in row)
    inputs = sorted(name for name in names if name.startswith(f"{INPUTS}."))
    order = [*(name for name in names if not name.startswith(f"{INPUTS}.")), *inputs]
    return pandas.DataFrame({name: _column([row.get(name) for row in rows]) for name in order})


def _column(values: list[Any]) -> pandas.Series[Any]:
    """The values with the one type that fits all of them; text if no other type does."""
    kinds = {type(value) for value in values if value is not None}
    for fitting, name in TYPES:
        if kinds <= fitting:
            return pandas.Series(values, dtype=name)
    texts = [None if value is None else str(value) for value in values]
    return pandas.Series(texts, dtype="string")


def check_ending(out: Path, *endings: str) -> None:
    """BadInput for a file with another ending; Missing if .parquet needs pyarrow."""
    if out.suffix not in endings:
        raise BadInput(f"{out}: the name of this table must end in {' or '.join(endings)}")
    if out.suffix == PARQUET:
        try:
            import pyarrow  # noqa: F401, PLC0415  an extra
        except ImportError:
            raise Missing(
                f"{out}: {PARQUET} needs the package pyarrow, which is not installed. Install it: "
                f'pip install "tcp-lab-notebook[capture]"; {CSV} needs no package'
            ) from None


def write_table(
    table: pandas.DataFrame, out: Path, lab_of: Callable[[str], Lab]
) -> tuple[Path, ...]:
    """Write a flat table in the format of the file's ending, each file completely or not at all.

    Units and meanings of the columns are in the metadata of Parquet's fields; beside a .csv file
    they are in a Frictionless Table Schema, `NAME.schema.json`. CSV begins with a byte-order mark,
    so that spreadsheets recognise UTF-8. Returns the files written.
    """
    check_ending(out, *ENDINGS)
    columns = described(table, lab_of)
    if out.suffix == PARQUET:
        write_whole(out, as_parquet(table, columns))
        return (out,)
    schema = out.with_suffix(SCHEMA)
    write_whole(out, table.to_csv(index=False, lineterminator="\n").encode("utf-8-sig"))
    write_whole(schema, as_text(table_schema(table, columns)).encode())
    return out, schema


def described(table: pandas.DataFrame, lab_of: Callable[[str], Lab]) -> dict[str, Described]:
    """The unit and the meaning of each column of a flat table.

    A result is described by its lab. If labs describe a name differently, each meaning is given,
    and no unit unless they agree.
    """
    lab_column = f"{OF_RUN}.lab" if f"{OF_RUN}.lab" in table else "lab"
    labs = [lab_of(str(name)) for name in dict.fromkeys(table[lab_column])]
    return {str(name): _describe(str(name), labs) for name in table}


def _describe(name: str, labs: Sequence[Lab]) -> Described:
    if name.startswith(f"{INPUTS}."):
        return _input(name, labs)
    results = [lab.columns[name] for lab in labs if name in lab.columns]
    if not results:
        return Described(unit_of(name), MEANINGS.get(name.removeprefix(f"{OF_RUN}."), ""))
    units = {column.unit for column in results}
    meanings = "; ".join(dict.fromkeys(column.meaning for column in results))
    return Described(units.pop() if len(units) == 1 else "", meanings)


def _input(name: str, labs: Sequence[Lab]) -> Described:
    """An input: what its part of the run says, and the help of the parameter with its name."""
    part = next((words for begin, words in PARTS.items() if name.startswith(begin)), "input")
    last = name.rpartition(".")[2]
    helps = [declared(lab.Parameters)[last].help for lab in labs if _is_parameter(name, lab)]
    return Described(unit_of(last), ": ".join([part, *dict.fromkeys(helps)]))


def _is_parameter(name: str, lab: Lab) -> bool:
    """Only of the link, because a setting may have another unit than the parameter of its name."""
    return name.startswith(LINK) and name.removeprefix(LINK) in declared(lab.Parameters)


def _of_the_run(run: Run) -> dict[str, Any]:
    """What a table says about a run itself, besides its results: identification first."""
    columns: dict[str, Any] = {
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
        columns["disturbed"] = list(disturbances(run))
    return columns


def _row(columns: Mapping[str, Any], results: Results, taken: Collection[str]) -> dict[str, Any]:
    """The columns about a run and its results; `taken` are the names that results use, too."""
    named = {
        (f"{OF_RUN}.{name}" if name in taken else name): value for name, value in columns.items()
    }
    first = dict(list(named.items())[:IDENTIFYING])
    return {name: _joined(value) for name, value in (first | dict(results) | named).items()}


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
