"""Wireshark's word on packets of a capture, beside the marks of this package."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pandas import DataFrame

from labs.errors import Missing
from labs.read import capture
from labs.read.display.rich_output import Table, Words
from labs.read.flows.reasons import NAMES

ACK_RTT = "tcp.analysis.ack_rtt"


def beside_wireshark(path: str | Path, segments: DataFrame, rows: Sequence[int]) -> Table | Words:
    """Wireshark's expert information on these rows of a capture, with the marks of this lab; a
    sentence if tshark is not installed. `segments` is the table of the capture. Columns without a
    flag are left out."""
    try:
        found = capture.wireshark_flags(path, rows)
    except Missing as missing:
        return Words(f"Wireshark's analysis is not available: {missing}.")
    own = segments.loc[found["row"]]
    since = own["time_ns"] - own["time_ns"].iloc[0]
    seen = found.reindex(columns=["marks", "wireshark", "expert", ACK_RTT]).fillna("")
    flags = {
        "Marks of this lab": seen["marks"],
        "Wireshark's flags": seen["wireshark"],
        "Wireshark's expert": seen["expert"],
        "Wireshark's ack_rtt (s)": seen[ACK_RTT],
    }
    return Table(
        {
            "Record": found["record"],
            "From": [NAMES[side] for side in own["direction"]],
            "Bytes": own["payload_bytes"].to_list(),
            "Time (ms)": (since / 1e6).to_list(),
            **{title: column for title, column in flags.items() if (column != "").any()},
        }
    )
