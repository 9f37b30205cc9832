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
from labs.read.display.rich_output import Table
from labs.read.runs.compare import CHANGED, EQUAL, GRADES, IDENTICAL, Change, changes

NOT_ASKED = frozenset({"size", "only", "repetitions_min", "repetitions_max", "ci_width_pct"})
"""Parameters that select runs and are not inputs of any."""


@dataclass(frozen=True, eq=False, repr=False)
class Moved:
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

    def __repr__(self) -> str:
        return f"<Moved {self._words()}>"

    def _repr_html_(self) -> str:
        parts = [f"<p>{escape(self._words())}</p>"]
        parts += [self.table._repr_html_()] if len(self.table) else []
        if len(self.digests):
            parts.append(
                f"<details><summary>{len(self.digests)} runs with different bytes</summary>"
                f"{self.digests._repr_html_()}</details>"
            )
        return "".join(parts)

    def _words(self) -> str:
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
    results = [
        name
        for name, column in now.columns.items()
        if column.role == RESULT and name in earlier.columns
    ]
    counts = dict.fromkeys((*GRADES, "not_made"), 0)
    changed: list[dict[str, Any]] = []
    digests: list[dict[str, Any]] = []
    for question in filter(before.__contains__, after):
        old, new = before[question], after[question]
        if old["status"] != MADE or new["status"] != MADE:
            counts["not_made"] += 1
            continue
        moves = changes(*({name: row[name] for name in results} for row in (old, new)))
        same = old["digest"] == new["digest"]
        counts[CHANGED if moves else IDENTICAL if same else EQUAL] += 1
        place = {name: new[name] for name in places}
        changed += [{**place, **_as_row(change, now)} for change in moves]
        if not same:
            digests.append({**place, "earlier": old["digest"], "now": new["digest"]})
    changed.sort(key=_size, reverse=True)
    counts["only_here"] = len(after.keys() - before.keys())
    counts["only_earlier"] = len(before.keys() - after.keys())
    return Moved(
        Table(changed, columns=[*places, "result", "unit", "earlier", "now", "change, %"]),
        Table(digests, columns=[*places, "earlier", "now"]),
        counts,
        Table(_constants(now, earlier, shared), columns=["name", "here", "earlier"], dtype=object),
    )


def _constants(now: Index, earlier: Index, shared: list[str]) -> Iterator[dict[str, Any]]:
    """The parameters with one value in each index, if the values differ."""
    for name in shared:
        here, before = (index.rows[name].unique().to_pylist() for index in (now, earlier))
        if len(here) == len(before) == 1 and here != before:
            yield {"name": name, "here": here[0], "earlier": before[0]}


def _size(row: Mapping[str, Any]) -> float:
    """The absolute change in per cent: infinite from 0 to another number, 0 without numbers."""
    if row["change, %"] is not None:
        return abs(float(row["change, %"]))
    numbers = all(type(row[name]) in (int, float) for name in ("earlier", "now"))
    return inf if numbers and row["earlier"] == 0 else 0.0


def _rows_by_question(index: Index, shared: list[str]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The rows by condition and shared parameters; equal ones are distinguished by their order."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    seen: Counter[tuple[Any, ...]] = Counter()
    for row in index.rows.to_pylist():
        question = (row["condition"], *(row[name] for name in shared))
        rows[(*question, seen[question])] = row
        seen[question] += 1
    return rows


def _as_row(change: Change, index: Index) -> dict[str, Any]:
    return {
        "result": change.name,
        "unit": index.columns[change.name].unit,
        "earlier": change.a,
        "now": change.b,
        "change, %": change.percent,
    }
