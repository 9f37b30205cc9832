"""What wget, httping and ss printed, next to the article's output; and wget next to the client that
discards."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import log, nan
from typing import TYPE_CHECKING, Any

from labs.experiments.buffers.results import Results, article, parameter
from labs.experiments.buffers.settings import WGET, Settings
from labs.read.claims.ledger import figures_by_column, has_articles_parameters
from labs.read.display.beside import Printed
from labs.read.display.beside import as_printed as lines_as_printed
from labs.read.display.rich_output import Table
from labs.read.runs.run import Run

if TYPE_CHECKING:
    from labs.read.study import Study

PROGRESS = re.compile(r"^ *(\d+K)[ .]+(\d+)% +([\d.]+[KMG]?) *=?(\S*)$", re.MULTILINE)
SAVED = re.compile(r"\([\d.]+ [KMG]?B/s\)")
ROUND_TRIPS = re.compile(r"^round-trip .*$", re.MULTILINE)
SOCKET = re.compile(
    r"bytes_received:(?P<received>\d+).*? rcv_space:(?P<space>\d+) "
    r"rcv_ssthresh:(?P<ssthresh>\d+) minrtt:(?P<min_rtt>[\d.]+)"
)
LAST_PCT = 100
HTTPING, DEEPEST = "A1.4", "A1.12"


def as_printed(*studies: Study) -> Table:
    """One row per output that the article shows: wget's bar and its last line, httping's summary,
    and three samples of `ss -io` in the download with the largest receive buffer."""
    runs = [run for study in studies for run in study.runs]
    return lines_as_printed(row for run in runs for row in _of(run))


def _of(run: Run) -> Iterator[Printed]:
    if run.httping() is not None:
        yield _of_httping(run)
    if run.settings_as(Settings).client == WGET and run.wget() is not None:
        yield _of_wget(run)
        if run.condition in article().claim(DEEPEST).conditions:
            yield from _of_ss(run)


def _of_wget(run: Run) -> Printed:
    """The line of wget's progress at the percentage that the article shows, and its last line."""
    id_, own = figures_by_column(article(), run, parameter) or ("", {})
    at_pct = article().claim(id_).arguments.get("shown_pct", LAST_PCT) if id_ else LAST_PCT
    text = run.text("client/wget.txt")
    # Of a file that fills all lines the last one is without rate: "100% 0.00 =9.0s".
    lines = [found for found in PROGRESS.finditer(text) if float(found[3].rstrip("KMG"))]
    at = next((found for found in lines if int(found[2]) >= at_pct), lines[-1] if lines else None)
    told = [f"{at_pct}% {own['steady_mib_s']:g}MB/s"] if "steady_mib_s" in own else []
    ours = [f"{at[1]} ... {at[2]}% {at[3]} {at[4]}"] if at else []
    if at_pct == LAST_PCT:
        told += [f"({own['goodput_mib_s']:g} MB/s)"] if "goodput_mib_s" in own else []
        ours += SAVED.findall(text)[-1:]
    return Printed(f"wget, {run.condition}", " ... ".join(told), " ... ".join(ours))


def _of_httping(run: Run) -> Printed:
    found = ROUND_TRIPS.findall(run.text("client/httping.txt"))
    figures = article().claim(HTTPING).figures
    times = "/".join(f"{figures[name]:.1f}" for name in ("min", "mean", "max"))
    comparable = has_articles_parameters(article(), run, HTTPING, parameter)
    return Printed(
        "httping",
        f"round-trip min/avg/max = {times} ms" if comparable else "",
        " ".join(found[-1].split()) if found else "",
    )


def _of_ss(run: Run) -> Iterator[Printed]:
    """The samples of ss closest, in bytes received, to the article's."""
    claim = article().claim(DEEPEST)
    comparable = has_articles_parameters(article(), run, DEEPEST, parameter)
    found = [one for one in SOCKET.finditer(run.text("client/ss.txt")) if int(one["received"])]
    for number, received in enumerate(claim.arguments["received_bytes"], start=1):
        space, ssthresh = (
            claim.figures[f"{name} {number}"] for name in ("rcv_space", "rcv_ssthresh")
        )
        farness = {abs(log(int(one["received"]) / received)): one for one in found}
        near = farness[min(farness)] if farness else None
        yield Printed(
            f"ss -io, sample {number}",
            _socket(received, space, ssthresh) if comparable else "",
            _socket(near["received"], near["space"], near["ssthresh"]) if near else "",
        )


def _socket(received: Any, space: Any, ssthresh: Any) -> str:
    return f"bytes_received:{int(received)} ... rcv_space:{int(space)} rcv_ssthresh:{int(ssthresh)}"


def by_client(of_wget: Study, built_in: Study) -> Table:
    """One row per download that both clients made: the article's figures, wget's here, and those of
    the client that discards, near the end and over the whole file."""
    others = {run.condition: Results(run) for run in built_in.runs}
    both = [
        (Results(run), others[run.condition]) for run in of_wget.runs if run.condition in others
    ]
    table = Table(
        {
            "Condition": [run.condition for run in of_wget.runs if run.condition in others],
            "Article, near the end": [wget.article_steady_mib_s for wget, _ in both],
            "wget, near the end": [wget.steady_mib_s for wget, _ in both],
            "Built-in client, near the end": [other.steady_mib_s for _, other in both],
            "Article, whole file": [wget.article_mib_s for wget, _ in both],
            "wget's own figure, whole file": [wget.wget_mib_s for wget, _ in both],
            "Built-in client, whole file": [other.goodput_mib_s for _, other in both],
            "Built-in client over wget (%)": [
                100 * ((other.goodput_mib_s or nan) / (wget.goodput_mib_s or nan) - 1)
                for wget, other in both
            ],
        }
    )
    speeds = [name for name in table if name not in ("Condition", "Built-in client over wget (%)")]
    table.attrs["units"] = dict.fromkeys(speeds, "MiB/s")
    return table
