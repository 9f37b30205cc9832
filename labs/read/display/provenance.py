"""Where numbers are from, in words: the link, the testbed, the kernel, recorded or live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isclose, isnan
from statistics import median
from typing import Any

from labs.drive.testbed.link import RATE_TOLERANCE, RTT_TOLERANCE, Link, Measured
from labs.drive.testbed.path import path_from_json
from labs.errors import BadInput
from labs.read.display.format import few, milliseconds
from labs.read.runs.recorded import is_recorded
from labs.read.runs.run import Run

LIVE, RECORDED = "live", "recorded"
NOT_SHAPED = "not shaped"
NAMED = 3
"""How many rows with a wrong link a caption names."""


def source(run: Run) -> str:
    """`recorded` for a run that came with the project, else `live`."""
    return RECORDED if is_recorded(run.path) else LIVE


def asked(link: Link) -> str:
    """The requested link: `1000 Mbit/s, 200 ms`."""
    words = [] if link.rate_mbit is None else [f"{link.rate_mbit:g} Mbit/s"]
    words += [f"{link.delay_ms:g} ms"] if link.delay_ms else []
    words += [f"± {link.jitter_ms:g} ms"] if link.jitter_ms else []
    words += [f"{link.loss_pct:g} % loss"] if link.loss_pct else []
    if not words:
        return NOT_SHAPED
    return ", ".join(words) + ("" if link.shaped_at == "server" else f", at the {link.shaped_at}")


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
    words = [] if link.rate_mbit is None else [f"{link.rate_mbit:.1f} Mbit/s"]
    words += [f"RTT {milliseconds(link.rtt_ms)}"]
    words += [] if link.loss_pct is None else [f"{link.loss_pct:.2f} % lost"]
    return ", ".join(words)


def of_run(run: Run) -> str:
    """The line below a chart of one run."""
    link = run.link
    summary = _Link(
        run.condition, link.ok, link.asked.shaped, link.measured.rtt_ms, link.measured.rate_mbit
    )
    return caption([run.testbed], [run.kernel.release], _link_words([summary]), [source(run)])


def of_table(table: Any) -> str:
    """The line below a chart of a table of results (`study.results()`), from its own columns."""
    names = ("condition", "link_ok", "link_shaped", "rtt_ms", "rate_mbit")
    rows = table.to_dict("records")
    links = [_Link(*(row[name] for name in names)) for row in rows]
    # Where flows have a path, the link is its wires, which nothing shapes.
    paths = {row["link_asked"] for row in rows if not row["link_shaped"]} - {NOT_SHAPED}
    words = _link_words(links)
    if paths and all(link.ok for link in links):
        words = f"path: {'; '.join(sorted(paths))}"
    return caption(table["testbed"], table["kernel"], words, table["source"])


def of_points(table: Any, over: Sequence[str]) -> str:
    """The line below a chart of a table with varied parameters, from the columns that it has."""
    parts = [_several(table["testbed"])] if "testbed" in table else []
    # Where the kernel is varied, `kernel` is what was asked for.
    kernel = next((name for name in ("run_kernel", "kernel") if name in table), None)
    parts += ["Linux " + _several(table[kernel])] if kernel else []
    if "link_ok" in table:
        wrong = table[~table["link_ok"].astype(bool)]
        at = [
            " ".join([str(row["condition"]), *(f"{name} {row[name]}" for name in over)])
            for row in wrong.to_dict("records")
        ]
        parts.append(
            f"LINK NOT AS ASKED: {few(at, NAMED, '; ')}"
            if at
            else f"link as asked in all {len(table)} rows"
        )
    parts += [_several(table["source"])] if "source" in table else []
    return " · ".join(parts)


@dataclass(frozen=True)
class _Link:
    """What a caption says about the link of a run."""

    condition: str
    ok: bool
    shaped: bool
    rtt_ms: float
    rate_mbit: float | None


def caption(testbeds: Any, kernels: Any, link: str, sources: Any) -> str:
    """`virtual · Linux 6.1.192 · link as asked (200.0 ms, 1000 Mbit/s) · recorded`."""
    return " · ".join([_several(testbeds), "Linux " + _several(kernels), link, _several(sources)])


def _link_words(links: list[_Link]) -> str:
    wrong = [link.condition for link in links if not link.ok]
    if wrong:
        return "LINK NOT AS ASKED: " + ", ".join(wrong)
    shaped = [_figures(links) for links in _alike([link for link in links if link.shaped])]
    return f"link as asked ({'; '.join(sorted(set(shaped))) or NOT_SHAPED})"


def _alike(links: list[_Link]) -> list[list[_Link]]:
    """The links in groups whose measured rates and round-trip times differ by no more than two
    measurements of one link may."""
    groups: list[list[_Link]] = []
    for link in sorted(links, key=lambda link: (link.rtt_ms, _rate(link))):
        for group in groups:
            if isclose(link.rtt_ms, group[0].rtt_ms, rel_tol=RTT_TOLERANCE) and isclose(
                _rate(link), _rate(group[0]), rel_tol=RATE_TOLERANCE
            ):
                group.append(link)
                break
        else:
            groups.append([link])
    return groups


def _rate(link: _Link) -> float:
    return 0.0 if link.rate_mbit is None or isnan(link.rate_mbit) else link.rate_mbit


def _figures(links: list[_Link]) -> str:
    """The median round-trip time and rate of similar links."""
    rtt, rate = (median(map(of, links)) for of in (lambda link: link.rtt_ms, _rate))
    if not rate:
        return milliseconds(rtt)
    return f"{milliseconds(rtt)}, {rate:{'.0f' if rate >= 100 else '.3g'}} Mbit/s"


def _several(values: Any) -> str:
    return ", ".join(dict.fromkeys(map(str, values)))
