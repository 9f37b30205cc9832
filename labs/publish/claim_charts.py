"""Which chart of the notebooks shows the runs that a claim is judged by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labs.publish.html import FIGURE
from labs.read.charts.style import plain
from labs.read.claims.verdict import Verdict


@dataclass(frozen=True)
class Chart:
    """A chart of a notebook: the address on its page, its title, what its table of numbers says,
    and the claims that its notebook judges."""

    address: str
    title: str
    cells: frozenset[str]
    lab: str
    claims: frozenset[str]


def charts_of(book: Any, address: str, lab: str, ids: Iterable[str]) -> list[Chart]:
    """The charts of an executed notebook, numbered as on its page. `ids` are those of claims."""
    outputs = [output for cell in book.cells for output in cell.get("outputs", ())]
    texts = "".join(str(one.get("data", {}).get("text/html", "")) for one in outputs)
    judged = frozenset(id_ for id_ in ids if f">{id_}<" in texts)
    figures = [one["data"][FIGURE] for one in outputs if FIGURE in one.get("data", {})]
    return [
        Chart(f"{address}#chart-{number}", title, _cells(figure) | {title}, lab, judged)
        for number, figure in enumerate(figures, 1)
        if (title := plain(str((figure["layout"].get("title") or {}).get("text") or "")))
    ]


def best_charts(
    lab: str, verdicts: Sequence[Verdict], charts: Sequence[Chart]
) -> Mapping[str, tuple[str, str]]:
    """For each claim the address and the title of the chart that names most of its conditions;
    of several, one in a notebook that judges the claim, then the one with the shortest table."""
    found = {}
    own = [one for one in charts if one.lab == lab]
    for verdict in verdicts:
        names = {name for one in verdict.single if one.behind for name in one.behind.conditions}

        def rank(chart: Chart, names: set[str] = names, id_: str = verdict.id) -> tuple[float, ...]:
            shown = sum(name in chart.cells or f"“{name}”" in chart.title for name in names)
            return (shown, id_ in chart.claims, -len(chart.cells))

        if own:
            best = max(own, key=rank)
            if rank(best)[0] or rank(best)[1]:
                found[verdict.id] = (best.address, best.title)
    return found


def _cells(figure: Mapping[str, Any]) -> frozenset[str]:
    table = (figure["layout"].get("meta") or {}).get("table") or {}
    return frozenset(str(cell) for row in table.get("rows", ()) for cell in row)
