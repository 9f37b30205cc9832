"""Which chart a claim is linked to: one that shows its runs and a figure of its kind, or none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labs.publish.claim_charts import Chart, best_charts, charts_of
from labs.read.claims.verdict import JudgedRuns
from labs.read.notebook_file import FIGURE
from tests.made_verdicts import verdict

BOTH = ("both-1m", "both-4m")


def chart(title: str, *names: str, kinds: tuple[str, ...] = ("rate",), longer: int = 0) -> Chart:
    cells = frozenset((*names, title, *(f"cell {at}" for at in range(longer))))
    return Chart(f"n.html#{title}", title, cells, frozenset(kinds), "sweeps", frozenset())


def chosen(unit: str, names: tuple[str, ...], *charts: Chart) -> str:
    behind = JudgedRuns("sweeps", len(names), dict.fromkeys(names, "ab"), {}, (), (), (), ())
    best = best_charts("sweeps", [replace(verdict(id="A5.7", unit=unit), behind=behind)], charts)
    return best["A5.7"][1] if best else ""


@pytest.mark.parametrize(
    ("unit", "charts", "expected"),
    [
        ("MiB/s", [chart("a", *BOTH, longer=9), chart("b", *BOTH)], "b"),
        ("MiB/s", [chart("a", *BOTH), chart("b", BOTH[0])], "a"),
        ("MiB/s", [chart("a", "other")], ""),
        ("KiB", [chart("a", *BOTH)], ""),
        ("KiB; packets", [chart("a", *BOTH), chart("b", BOTH[0], kinds=("size",))], "b"),
        ("ratio", [chart("a", *BOTH, kinds=())], "a"),
    ],
)
def test_best_charts(unit: str, charts: list[Chart], expected: str) -> None:
    assert chosen(unit, BOTH, *charts) == expected


def test_charts_of_reads_labels_and_units() -> None:
    table = {"heads": ["Series", "Requested (KiB)", "Measured (MiB/s)"], "rows": [["one", "16"]]}
    figure = {
        "data": [{"customdata": ["both-1m: 114 MiB/s", 7], "text": "x"}],
        "layout": {"title": {"text": "Goodput"}, "meta": {"table": table}},
    }
    output = {"data": {FIGURE: figure}}
    book = type("Book", (), {"cells": [{"outputs": [output]}]})
    (chart,) = charts_of(book, "n.html", "sweeps", [])
    assert chart.kinds == {"size", "rate"}
    assert {"both-1m", "one", "Goodput"} <= chart.cells
