"""What a notebook calls beside the study and the charts, as `labs.nagle.NAME`.

The tables take the exchanges of a capture (`labs.read.flows.exchanges.exchanges`), of a run or of
the reader's own: sequences of steps, who waited for whom, Wireshark's flags beside ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from labs.errors import Missing
from labs.experiments.nagle.narrative import describe_requests
from labs.experiments.nagle.requests import (
    own_requests,
    own_table,
    packets_of,
    requests_of,
    stalls_in,
    typical,
    usual,
)
from labs.experiments.nagle.settings import NGINX_HEAD_BYTES
from labs.read import capture
from labs.read.display.rich_output import Table, Words
from labs.read.flows.exchanges import AND_SO_ON, in_words
from labs.read.flows.stalls import explained
from labs.read.theory.nagle import answer, sent, wait

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "NGINX_HEAD_BYTES",
    "answer",
    "beside_wireshark",
    "describe_requests",
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

SIDES = ("client", "server")
ACK_RTT = "tcp.analysis.ack_rtt"


def sequences(requests: Mapping[str, DataFrame]) -> Table:
    """One row per sequence of steps, for each name: how many of its requests take these steps."""
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
                    "condition": name,
                    "steps": in_words(steps),
                    "requests": count,
                    "share, %": 100 * count / max(1, found.requests),
                    "which": "the first on their connection" if first else "",
                }
            )
    return Table(rows, columns=["condition", "steps", "requests", "share, %", "which"])


def waits(requests: DataFrame) -> Table:
    """One row per reason for a stall: who waited for whom, how long, and the rule."""
    rows = []
    for (reason, waiting, waited_for), own in requests[stalls_in(requests)].groupby(
        ["reason", "waiting", "waited_for"], sort=False
    ):
        rows.append(
            {
                "requests": len(own),
                "who waits": waiting,
                "for whom": waited_for,
                "reason": reason,
                "least, ms": own["gap_ms"].min(),
                "median, ms": own["gap_ms"].median(),
                "most, ms": own["gap_ms"].max(),
                "rule": explained(str(reason)).source,
            }
        )
    return Table(
        rows,
        columns=[
            "requests",
            "who waits",
            "for whom",
            "reason",
            "least, ms",
            "median, ms",
            "most, ms",
            "rule",
        ],
    )


def beside_wireshark(path: str | Path, segments: DataFrame, rows: Sequence[int]) -> Table | Words:
    """What Wireshark's expert says of these rows of a capture, beside the marks of this lab; a
    sentence where tshark is not here. `segments` is the capture's table."""
    try:
        found = capture.wireshark_flags(path, rows)
    except Missing as missing:
        return Words(f"Wireshark cannot be asked here: {missing}.")
    own = segments.loc[found["row"]]
    since = own["time_ns"] - own["time_ns"].iloc[0]
    seen = found.reindex(columns=["marks", "wireshark", "expert", ACK_RTT]).fillna("")
    return Table(
        {
            "record": found["record"],
            "from": [SIDES[side] for side in own["direction"]],
            "bytes": own["payload_bytes"].to_list(),
            "at, ms": (since / 1e6).to_list(),
            "our marks": seen["marks"],
            "Wireshark's flags": seen["wireshark"],
            "its expert": seen["expert"],
            "its ack_rtt, s": seen[ACK_RTT],
        }
    )
