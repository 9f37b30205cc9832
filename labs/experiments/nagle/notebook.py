"""What a notebook calls as `labs.nagle.NAME`, besides the study and the charts.

The tables take the exchanges of a capture (`labs.read.flows.exchanges.exchanges`), recorded by a
run or elsewhere: sequences of steps, who waited for whom, Wireshark's flags with ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from labs.experiments.nagle.narrative import describe_requests
from labs.experiments.nagle.requests import (
    answered,
    held_segment,
    own_requests,
    own_table,
    packets_of,
    requests_of,
    stalls_in,
    table_of,
    typical,
    usual,
)
from labs.experiments.nagle.results import CLAIMS, article, expected
from labs.experiments.nagle.settings import NGINX_HEAD_BYTES, Settings
from labs.read.claims.ledger import has_articles_parameters
from labs.read.display.as_printed import Printed, as_printed, last_match
from labs.read.display.beside_wireshark import beside_wireshark
from labs.read.display.rich_output import Table
from labs.read.flows.exchanges import AND_SO_ON, describe_steps
from labs.read.flows.reasons import explained
from labs.read.readings.latency import latency
from labs.read.theory.nagle import answer, sent, wait

if TYPE_CHECKING:
    from pandas import DataFrame

    from labs.read.study import Study

__all__ = [
    "NGINX_HEAD_BYTES",
    "answer",
    "beside_wireshark",
    "by_ab",
    "describe_requests",
    "exchanged",
    "held_segments",
    "means",
    "own_requests",
    "own_table",
    "packets_of",
    "requests_of",
    "sent",
    "sequences",
    "typical",
    "wait",
    "waits",
]


AB_LINE = r"^Time per request: .*\(mean\)$"


def sequences(requests: Mapping[str, DataFrame]) -> Table:
    """One row per name and sequence of steps: how many requests follow it."""
    rows = []
    for name, table in requests.items():
        found = usual(table)
        for steps, count in ((found.steps, found.follow), *found.others.items()):
            if not count:
                continue
            bare = steps[:-1] if steps[-1] == AND_SO_ON else steps
            own = table[(table["steps"] == steps) | (table["steps"] == bare)]
            first = bool(len(own)) and bool((own["request"] == 0).all())
            rows.append(
                {
                    "Condition": name,
                    "Steps": describe_steps(steps),
                    "Requests": count,
                    "Share (%)": 100 * count / max(1, found.requests),
                    "Which": "the first on their connection" if first else "",
                }
            )
    return Table(rows, columns=["Condition", "Steps", "Requests", "Share (%)", "Which"])


def waits(requests: DataFrame) -> Table:
    """One row per reason for a stall: who waited for whom, how long, and the rule."""
    rows = []
    for (reason, waiting, waited_for), own in requests[stalls_in(requests)].groupby(
        ["reason", "waiting", "waited_for"], sort=False
    ):
        rows.append(
            {
                "Requests": len(own),
                "Who waits": waiting,
                "For whom": waited_for,
                "Reason": reason,
                "Minimum (ms)": own["gap_ms"].min(),
                "Median (ms)": own["gap_ms"].median(),
                "Maximum (ms)": own["gap_ms"].max(),
                "Source": explained(str(reason)).source,
            }
        )
    return Table(
        rows,
        columns=[
            "Requests",
            "Who waits",
            "For whom",
            "Reason",
            "Minimum (ms)",
            "Median (ms)",
            "Maximum (ms)",
            "Source",
        ],
    )


def means(study: Study, *conditions: str) -> Table:
    """One row per condition: how its predicted mean follows from the time of a typical request.

    The first requests on their connections shorten or lengthen it, and so does ab, which computes
    the mean from its whole duration: it has one connection only until the first header is there.
    """
    rows = []
    for name in conditions:
        run = study.run(name)
        found = expected(run)
        if found is None:
            continue
        first_ms = (found.first_ms - found.steady_ms) / run.settings_as(Settings).on_a_connection
        rows.append(
            {
                "Condition": name,
                "Typical request (ms)": found.steady_ms,
                "First requests (ms)": first_ms,
                "Start of ab (ms)": found.mean_ms - found.steady_ms - first_ms,
                "Predicted mean (ms)": found.mean_ms,
                "Measured mean (ms)": latency(run).mean_ms,
            }
        )
    return Table(rows).round(1)


def held_segments(study: Study, *conditions: str) -> Table:
    """One row per condition: how long the second part of the first response was held back, what
    released it, and how often the first part was retransmitted meanwhile."""
    rows = []
    for name in conditions:
        found = held_segment(table_of(study.run(name)))
        if found is not None:
            rows.append(
                {
                    "Condition": name,
                    "Held (ms)": found.held_ms,
                    "Released by": "an ACK" if found.acknowledged else "no ACK",
                    "Retransmissions meanwhile": found.retransmissions,
                }
            )
    return Table(
        rows, columns=["Condition", "Held (ms)", "Released by", "Retransmissions meanwhile"]
    )


def exchanged(study: Study, *conditions: str) -> Table:
    """One row per condition: time, packets per response, and the payload share of all bytes."""
    found = {name: answered(study.run(name)) for name in conditions}
    return Table(
        {
            "Condition": list(found),
            "Time (ms)": [latency(study.run(name)).mean_ms for name in found],
            "Segments of the response": [one.segments for one in found.values()],
            "All packets": [one.packets for one in found.values()],
            "Payload share of all bytes (%)": [one.payload_pct for one in found.values()],
        }
    )


def by_ab(study: Study, *conditions: str) -> Table:
    """The line of ab that the article quotes, from the run of each condition, next to the article's
    if the run has its parameters."""
    lines = []
    for name in conditions:
        run, claim = study.run(name), article().claim(CLAIMS[name])
        comparable = has_articles_parameters(article(), run, claim.id)
        own = f"Time per request: {claim.figure:.3f} [ms] (mean)" if comparable else ""
        settings = run.settings_as(Settings)
        command = f"ab -n {settings.requests} -c {settings.concurrency} -k ({name})"
        lines.append(Printed(command, own, last_match(run, "client/ab.txt", AB_LINE)))
    return as_printed(lines)
