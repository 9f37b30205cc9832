"""Compare two batches: which results changed, by how much, and which runs differ in bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from math import inf
from typing import Any

from labs.drive.parameters.declare import plain
from labs.read.batch_index import Index
from labs.read.batch_index_schema import MADE, RESULT
from labs.read.display.format import printable
from labs.read.display.rich_output import Summary, Table
from labs.read.runs.compare import CHANGED, EQUAL, GRADES, IDENTICAL, Change, changes

NOT_ASKED = frozenset({"size", "only", "repetitions_min", "repetitions_max", "ci_width_pct"})
"""Parameters that select runs and are not inputs of any."""


Row = dict[str, Any]


@dataclass(frozen=True, eq=False, repr=False)
class Moved(Summary):
    """The rows that two batches share.

    `table` has one row per changed result, with the largest change first: the columns that identify
    the row, the result, its values `earlier` and `now`, and the `change` in per cent. `digests` has
    the rows whose runs differ in bytes. `counts` has the number of shared rows that are identical,
    equal (different bytes, same results) or changed, and of rows that only one batch has. It is
    empty if nothing was compared. `constants` has the shared parameters that are constant in each
    batch and differ: `name`, and the values `here` and `earlier`.
    """

    table: Table
    digests: Table
    counts: Mapping[str, int]
    constants: Table = field(default_factory=Table)

    def _repr_html_(self) -> str:
        table = self.table._repr_html_() if len(self.table) else ""
        digests = ""
        if len(self.digests):
            summary = f"{len(self.digests)} runs with different bytes"
            details = f"<summary>{summary}</summary>{self.digests._repr_html_()}"
            digests = f"<details>{details}</details>"
        return f"<p>{escape(self.summary())}</p>{table}{digests}"

    def summary(self) -> str:
        if not self.counts:
            return "There is no earlier batch to compare with."
        rows = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in self.counts.items())
        differ = ", ".join(
            f"{row['name']} ({plain(row['here'])} here, {plain(row['earlier'])} earlier)"
            for row in self.constants.to_dict("records")
        )
        return printable(f"Rows: {rows}" + (f". The batches differ in {differ}." if differ else ""))


def moved(now: Index, earlier: Index) -> Moved:
    """Compare the rows of two indexes that have equal parameters and conditions.

    Parameters that only one index has, and those that select runs, are ignored. Rows that are not
    made in both indexes are counted as `not_made`.
    """
    shared = [
        name for name in now.parameters if name in earlier.parameters and name not in NOT_ASKED
    ]
    axes = [name for name in dict.fromkeys([*now.head.axes, *earlier.head.axes]) if name in shared]
    places = [*axes, "condition"]
    before, after = (_rows_by_question(index, shared) for index in (earlier, now))
    pairs = [(before[question], row) for question, row in after.items() if question in before]
    made = [pair for pair in pairs if pair[0]["status"] == pair[1]["status"] == MADE]
    results = [
        name
        for name, column in now.columns.items()
        if column.role == RESULT and name in earlier.columns
    ]
    counts = dict.fromkeys(GRADES, 0)
    moves: list[tuple[Change, Row]] = []
    digests: list[Row] = []
    for old, new in made:
        changed = changes(*({name: row[name] for name in results} for row in (old, new)))
        place = {name: new[name] for name in places}
        moves += [(change, place) for change in changed]
        differ = {"earlier": old["digest"], "now": new["digest"]}
        same = old["digest"] == new["digest"]
        digests += [] if same else [place | differ]
        counts[CHANGED if changed else IDENTICAL if same else EQUAL] += 1
    moves.sort(key=lambda move: _size(move[0]), reverse=True)
    return Moved(
        Table(
            [place | _as_row(change, now) for change, place in moves],
            columns=[*places, "result", "unit", "earlier", "now", "change, %"],
        ),
        Table(digests, columns=[*places, "earlier", "now"]),
        {
            **counts,
            "not_made": len(pairs) - len(made),
            "only_here": len(after) - len(pairs),
            "only_earlier": len(before) - len(pairs),
        },
        Table(_constants(now, earlier, shared), columns=["name", "here", "earlier"], dtype=object),
    )


def _constants(now: Index, earlier: Index, shared: list[str]) -> Iterator[Row]:
    """The parameters with one value in each index, if the values differ."""
    for name in shared:
        here, before = (index.rows[name].unique().to_pylist() for index in (now, earlier))
        if len(here) == len(before) == 1 and here != before:
            yield {"name": name, "here": here[0], "earlier": before[0]}


def _size(change: Change) -> float:
    """The absolute change in per cent: infinite from 0 to another number, 0 without numbers."""
    if change.percent is not None:
        return abs(change.percent)
    is_number = type(change.b) in (int, float)
    return inf if change.a == 0 and is_number else 0.0


def _rows_by_question(index: Index, shared: list[str]) -> dict[tuple[Any, ...], Row]:
    """The rows by condition and shared parameters; equal ones are distinguished by their order."""
    rows: dict[tuple[Any, ...], Row] = {}
    seen: Counter[tuple[Any, ...]] = Counter()
    for row in index.rows.to_pylist():
        question = (row["condition"], *(row[name] for name in shared))
        rows[(*question, seen[question])] = row
        seen[question] += 1
    return rows


def _as_row(change: Change, index: Index) -> Row:
    return {
        "result": change.name,
        "unit": index.columns[change.name].unit,
        "earlier": change.a,
        "now": change.b,
        "change, %": change.percent,
    }
