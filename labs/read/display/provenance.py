"""Where numbers are from, in words: the link, the testbed, the kernel, recorded or live."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isclose
from statistics import median
from typing import Any

from labs.drive.testbed.link import RATE_TOLERANCE, RTT_TOLERANCE, Link, Measured
from labs.drive.testbed.path import path_from_json
from labs.errors import BadInput
from labs.read.display.format import few, is_known, milliseconds
from labs.read.runs.recorded import is_recorded
from labs.read.runs.run import Run

LIVE, RECORDED = "live", "recorded"
NOT_SHAPED, WRONG = "not shaped", "LINK NOT AS ASKED"
TOLERANCES = RTT_TOLERANCE, RATE_TOLERANCE
NAMED = 3
"""How many rows with a wrong link a caption names."""


def source(run: Run) -> str:
    """`recorded` for a run that came with the project, else `live`."""
    return RECORDED if is_recorded(run.path) else LIVE


def asked(link: Link) -> str:
    """The requested link: `1000 Mbit/s, 200 ms`."""
    figures = [
        "" if link.rate_mbit is None else f"{link.rate_mbit:g} Mbit/s",
        f"{link.delay_ms:g} ms" if link.delay_ms else "",
        f"± {link.jitter_ms:g} ms" if link.jitter_ms else "",
        f"{link.loss_pct:g} % loss" if link.loss_pct else "",
    ]
    where = "" if link.shaped_at == "server" else f"at the {link.shaped_at}"
    return ", ".join(filter(None, [*figures, where])) if any(figures) else NOT_SHAPED


def asked_of(run: Run) -> str:
    """What was requested of a run: its link, or the path of its flows (`10 Mbit/s, 40 ms`)."""
    try:
        path = path_from_json(run.condition_asked.plan["path"])
    except (BadInput, LookupError, TypeError):  # the plan is of another lab, or none
        return asked(run.link.asked)
    rate = path.down.rate_mbit
    return asked(Link(rate_mbit=rate, delay_ms=path.rtt_ms, loss_pct=path.down.loss_pct))


def measured(link: Measured) -> str:
    """What was measured of a link: `1000.0 Mbit/s, RTT 200.0 ms`."""
    rate = "" if link.rate_mbit is None else f"{link.rate_mbit:.1f} Mbit/s, "
    lost = "" if link.loss_pct is None else f", {link.loss_pct:.2f} % lost"
    return f"{rate}RTT {milliseconds(link.rtt_ms)}{lost}"


def of_run(run: Run) -> str:
    """The line below a chart of one run."""
    link = run.link
    row = {
        "condition": run.condition,
        "testbed": run.testbed,
        "kernel": run.kernel.release,
        "source": source(run),
        "link_ok": link.ok,
        "link_shaped": link.asked.shaped,
        "rtt_ms": link.measured.rtt_ms,
        "rate_mbit": link.measured.rate_mbit,
    }
    return _caption([row], _link_words([row]))


def of_table(table: Any) -> str:
    """The line below a chart of a table of results (`study.results()`), from its own columns:
    `virtual · Linux 6.1.192 · link as asked (200.0 ms, 1000 Mbit/s) · recorded`."""
    rows = table.to_dict("records")
    # Where flows have a path, the link is its wires, which nothing shapes.
    paths = {row["link_asked"] for row in rows if not row["link_shaped"]} - {NOT_SHAPED}
    if paths and all(row["link_ok"] for row in rows):
        return _caption(rows, f"path: {'; '.join(sorted(paths))}")
    return _caption(rows, _link_words(rows))


def of_points(table: Any, over: Sequence[str]) -> str:
    """The line below a chart of a table with varied parameters, from the columns that it has."""
    rows, link = table.to_dict("records"), ""
    if "link_ok" in table:
        wrong = [
            " ".join([str(row["condition"]), *(f"{name} {row[name]}" for name in over)])
            for row in rows
            if not row["link_ok"]
        ]
        link = f"link as asked in all {len(table)} rows"
        link = f"{WRONG}: {few(wrong, NAMED, '; ')}" if wrong else link
    # Where the kernel is varied, `kernel` is what was asked for.
    return _caption(rows, link, "run_kernel" if "run_kernel" in table else "kernel")


def _caption(rows: list[dict[str, Any]], link: str, kernel: str = "kernel") -> str:
    testbeds, kernels, sources = (
        ", ".join(dict.fromkeys(str(row[name]) for row in rows if name in row))
        for name in ("testbed", kernel, "source")
    )
    return " · ".join(filter(None, [testbeds, kernels and f"Linux {kernels}", link, sources]))


def _link_words(rows: list[dict[str, Any]]) -> str:
    """The wrong links, or the figures of each group of links whose measured rates and round-trip
    times differ by no more than two measurements of one link may."""
    if wrong := [row["condition"] for row in rows if not row["link_ok"]]:
        return f"{WRONG}: {', '.join(wrong)}"
    groups: list[list[tuple[float, float]]] = []
    for link in sorted((row["rtt_ms"], _rate(row)) for row in rows if row["link_shaped"]):
        alike = (group for group in groups if all(map(_close, link, group[0], TOLERANCES)))
        if (group := next(alike, None)) is None:
            groups.append(group := [])
        group.append(link)
    shaped = {_figures(*map(median, zip(*group, strict=True))) for group in groups}
    return f"link as asked ({'; '.join(sorted(shaped)) or NOT_SHAPED})"


def _rate(row: Mapping[str, Any]) -> float:
    return float(row["rate_mbit"]) if is_known(row["rate_mbit"]) else 0.0


def _close(value: float, other: float, tolerance: float) -> bool:
    return isclose(value, other, rel_tol=tolerance)


def _figures(rtt_ms: float, rate_mbit: float) -> str:
    rate = f", {rate_mbit:{'.0f' if rate_mbit >= 100 else '.3g'}} Mbit/s" if rate_mbit else ""
    return milliseconds(rtt_ms) + rate
