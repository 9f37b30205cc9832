"""Where numbers are from, in words: the link, the testbed, the kernel, recorded or live."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from labs.drive import testbeds
from labs.errors import BadInput
from labs.guest.testbed.link import RATE_TOLERANCE, RTT_TOLERANCE, Link, Measured
from labs.guest.testbed.path import path_from_json
from labs.read.display.format import few, milliseconds
from labs.read.runs.recorded import is_recorded
from labs.read.runs.run import Run

if TYPE_CHECKING:
    from pandas import DataFrame

LIVE, RECORDED = "live", testbeds.RECORDED.name
NOT_SHAPED, WRONG = "not shaped", "LINK NOT AS ASKED"
TOLERANCES = [RTT_TOLERANCE, RATE_TOLERANCE]
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


def facts(run: Run) -> dict[str, Any]:
    """What a caption says of a run, as the columns that `of_table` reads."""
    link = run.link
    return {
        "condition": run.condition,
        "testbed": run.testbed,
        "kernel": run.kernel.release,
        "source": source(run),
        "link_ok": link.ok,
        "link_shaped": link.asked.shaped,
        "link_asked": asked(link.asked),
        "rtt_ms": link.measured.rtt_ms,
        "rate_mbit": link.measured.rate_mbit,
    }


def of_run(run: Run) -> str:
    """The line below a chart of one run."""
    from pandas import DataFrame  # noqa: PLC0415  not for commands that only name a link

    return of_table(DataFrame([facts(run)]))


def of_table(table: DataFrame) -> str:
    """The line below a chart of a table of results (`study.results()`), from its own columns:
    `virtual · Linux 6.1.192 · link as asked (200.0 ms, 1000 Mbit/s) · recorded`."""
    shaped = table["link_shaped"].astype(bool)
    # Where flows have a path, the link is its wires, which nothing shapes.
    paths = set(table["link_asked"][~shaped]) - {NOT_SHAPED}
    if wrong := list(table["condition"][~table["link_ok"].astype(bool)]):
        return _caption(table, f"{WRONG}: {', '.join(wrong)}")
    if paths:
        return _caption(table, f"path: {'; '.join(sorted(paths))}")
    return _caption(table, f"link as asked ({'; '.join(_links(table[shaped])) or NOT_SHAPED})")


def _links(table: DataFrame) -> list[str]:
    """The figures of the links; two that differ no more than measurements of one link may are
    one."""
    links = table[["rtt_ms", "rate_mbit"]].astype(float).sort_values(["rtt_ms", "rate_mbit"])
    others = (links.pct_change(fill_method=None).abs() > TOLERANCES).any(axis=1).cumsum()
    return sorted({_figures(*link) for link in links.groupby(others).median().to_numpy()})


def of_points(table: DataFrame, over: Sequence[str]) -> str:
    """The line below a chart of a table with varied parameters, from the columns that it has."""
    link = ""
    if "link_ok" in table:
        wrong = table[~table["link_ok"].astype(bool)]
        words = [wrong["condition"], *(f"{name} " + wrong[name].astype(str) for name in over)]
        names = [" ".join(row) for row in zip(*words, strict=True)]
        link = f"link as asked in all {len(table)} rows"
        if names:
            link = f"{WRONG}: {few(names, NAMED, '; ')}"
    # Where the kernel is varied, `kernel` is what was asked for.
    return _caption(table, link, "run_kernel" if "run_kernel" in table else "kernel")


def _caption(table: DataFrame, link: str, kernel: str = "kernel") -> str:
    testbeds, kernels, sources = (
        ", ".join(map(str, table[name].unique())) if name in table else ""
        for name in ("testbed", kernel, "source")
    )
    return " · ".join(filter(None, [testbeds, kernels and f"Linux {kernels}", link, sources]))


def _figures(rtt_ms: float, rate_mbit: float) -> str:
    digits = ".0f" if rate_mbit >= 100 else ".3g"
    return milliseconds(rtt_ms) + (f", {rate_mbit:{digits}} Mbit/s" if rate_mbit > 0 else "")
