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
    pairs = [(before[question], row) for question, row in after.items() if question in before]
    both = [pair for pair in pairs if all(row["status"] == MADE for row in pair)]
    results = [
        name
        for name, column in now.columns.items()
        if column.role == RESULT and name in earlier.columns
    ]
    graded = [_graded(old, new, results) for old, new in both]
    grades = Counter(grade for grade, _ in graded)
    changed = [
        {**{name: new[name] for name in places}, **change}
        for (_, new), (_, results) in zip(both, graded, strict=True)
        for change in _as_rows(results, now)
    ]
    changed.sort(key=_size, reverse=True)
    digests = [
        {**{name: new[name] for name in places}, "earlier": old["digest"], "now": new["digest"]}
        for old, new in both
        if old["digest"] != new["digest"]
    ]
    counts = {grade: grades[grade] for grade in GRADES} | {
        "not_made": len(pairs) - len(both),
        "only_here": len(after.keys() - before.keys()),
        "only_earlier": len(before.keys() - after.keys()),
    }
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


def _graded(
    earlier: Mapping[str, Any], now: Mapping[str, Any], results: list[str]
) -> tuple[str, list[Change]]:
    """Whether two rows are identical, equal or changed, and the results that changed."""
    moves = changes(*({name: row[name] for name in results} for row in (earlier, now)))
    same = earlier["digest"] == now["digest"]
    return CHANGED if moves else IDENTICAL if same else EQUAL, moves


def _rows_by_question(index: Index, shared: list[str]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The rows by condition and shared parameters; equal ones are distinguished by their order."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    seen: Counter[tuple[Any, ...]] = Counter()
    for row in index.rows.to_pylist():
        question = (row["condition"], *(row[name] for name in shared))
        rows[(*question, seen[question])] = row
        seen[question] += 1
    return rows


def _as_rows(moves: list[Change], index: Index) -> Iterator[dict[str, Any]]:
    for change in moves:
        yield {
            "result": change.name,
            "unit": index.columns[change.name].unit,
            "earlier": change.a,
            "now": change.b,
            "change, %": change.percent,
        }
