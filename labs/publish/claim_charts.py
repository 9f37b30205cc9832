"""Which chart of the notebooks shows the runs that a claim is judged by."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labs.read.claims.verdict import Verdict
from labs.read.figures.style import plain
from labs.read.notebook_file import FIGURE

SIZES = frozenset({"bytes", "KiB", "MiB", "GiB", "KB", "MB"})
TIMES = frozenset({"s", "ms", "µs"})
UNIT = re.compile(r"\(([^()]+)\)")


@dataclass(frozen=True)
class Chart:
    """A chart of a notebook: the address on its page, its title, what its table of numbers and its
    labels say, what kinds of figures the table has, and the claims that its notebook judges."""

    address: str
    title: str
    cells: frozenset[str]
    kinds: frozenset[str]
    lab: str
    claims: frozenset[str]

    def names(self, conditions: Iterable[str]) -> int:
        """How many of these conditions it names."""
        return sum(name in self.cells or f"“{name}”" in self.title for name in conditions)


def charts_of(book: Any, address: str, lab: str, ids: Iterable[str]) -> list[Chart]:
    """The charts of an executed notebook, numbered as on its page. `ids` are those of claims."""
    outputs = [output for cell in book.cells for output in cell.get("outputs", ())]
    texts = "".join(str(output.get("data", {}).get("text/html", "")) for output in outputs)
    judged = frozenset(id_ for id_ in ids if f">{id_}<" in texts)
    figures = [output["data"][FIGURE] for output in outputs if FIGURE in output.get("data", {})]
    return [
        Chart(
            f"{address}#chart-{number}",
            title,
            _cells(figure) | _labels(figure) | {title},
            frozenset(map(_kind, UNIT.findall(" ".join(_table(figure).get("heads", ()))))),
            lab,
            judged,
        )
        for number, figure in enumerate(figures, 1)
        if (title := plain(str((figure["layout"].get("title") or {}).get("text") or "")))
    ]


def best_charts(
    lab: str, verdicts: Sequence[Verdict], charts: Sequence[Chart]
) -> Mapping[str, tuple[str, str]]:
    """For each claim the address and the title of the chart that names most of its conditions. A
    notebook that judges the claim, then the shortest table, decides between several. A claim about
    a size, a time or a rate needs a chart with such figures. Claims without one are left out."""
    chart_by_claim = {}
    of_lab = [chart for chart in charts if chart.lab == lab]
    for verdict in verdicts:
        names = {name for part in verdict.single if part.behind for name in part.behind.conditions}
        kind = _kind(verdict.unit.partition(";")[0])
        ranks = {
            chart: (chart.names(names), verdict.id in chart.claims, -len(chart.cells))
            for chart in of_lab
            if not kind or kind in chart.kinds
        }
        best = max(ranks, key=lambda chart: ranks[chart], default=None)
        if best and ranks[best][0]:
            chart_by_claim[verdict.id] = (best.address, best.title)
    return chart_by_claim


def _kind(unit: str) -> str:
    """Whether a unit is that of a size, a time or a rate; nothing for others, such as ratios."""
    if unit in SIZES:
        return "size"
    return "time" if unit in TIMES else "rate" if unit.endswith(("/s", " per s")) else ""


def _table(figure: Mapping[str, Any]) -> Mapping[str, Any]:
    return (figure["layout"].get("meta") or {}).get("table") or {}


def _cells(figure: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(str(cell) for row in _table(figure).get("rows", ()) for cell in row)


def _labels(figure: Mapping[str, Any]) -> frozenset[str]:
    """The names in front of the colons in the labels of points: `sender-64k: 7.01 MiB/s`."""
    labels = (
        label
        for trace in figure.get("data", ())
        for kind in ("text", "hovertext", "customdata")
        if isinstance(trace.get(kind), list)
        for label in trace[kind]
    )
    return frozenset(label.partition(":")[0] for label in labels if isinstance(label, str))
