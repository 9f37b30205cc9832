"""How a receive window opens: the window of the SYN-ACK, then packets, payload and window by round
trip."""

from __future__ import annotations

from dataclasses import dataclass

from pandas import DataFrame, Series

from labs.experiments.windows.packets import RECEIVER, packets
from labs.read import capture
from labs.read.capture.segment_table import SYN
from labs.read.runs.run import Run
from labs.read.theory.receive_window_memory import Fate

EARLY = 0.05
"""A share of a round trip: a packet that is at most this early belongs to the next round trip."""


@dataclass(frozen=True)
class SynAck:
    """The window that the receiver's SYN-ACK offered, and its scale."""

    window_bytes: int
    wscale: int


def syn_ack(run: Run) -> SynAck:
    """The window and the window scale of the receiver's SYN-ACK; the scale is 0 without that
    option."""
    path = run.file(f"{RECEIVER}/capture.pcap")
    segments = capture.read(path)
    syn = segments[(segments["direction"] == 1) & ((segments["flags"] & SYN) != 0)]
    wscale = int(capture.connections(path)["server_wscale"].iloc[0])
    return SynAck(int(syn["window_bytes"].iloc[0]), max(0, wscale))


def round_trips(run: Run) -> DataFrame:
    """One row per round trip in which a packet arrived.

    Columns: `round_trip` (from 1), `packets`, `payload_bytes` of the accepted packets,
    `window_bytes` (the largest that the receiver offered in it: from the last acknowledged
    byte to the right edge), `rcv_ssthresh_bytes` and `window_left_bytes` at the end, and `updates`,
    the number of times that the right edge moved.
    """
    return by_round_trip(packets(run), run.link.asked.delay_ms)


def by_round_trip(table: DataFrame, rtt_ms: float) -> DataFrame:
    """The same for a table of packets."""
    edge = right_edge(table)
    seen = table.assign(
        round_trip=1 + (table["time_s"] / (rtt_ms / 1e3) + EARLY).astype(int) if rtt_ms else 1,
        accepted_bytes=accepted(table),
        window_bytes=edge - table["acked_bytes"],
        moved=edge.diff().fillna(0) > 0,
    )
    return seen.groupby("round_trip", as_index=False).agg(
        packets=("packet", "count"),
        payload_bytes=("accepted_bytes", "sum"),
        window_bytes=("window_bytes", "max"),
        rcv_ssthresh_bytes=("rcv_ssthresh_bytes", "last"),
        window_left_bytes=("window_left_bytes", "last"),
        updates=("moved", "sum"),
    )


def accepted(table: DataFrame) -> Series[int]:
    """The payload of each packet; 0 if it was dropped (according to the simulation if there is no
    sample)."""
    predicted = (table["predicted_fate"] == Fate.DROPPED.name).astype(int)
    return table["payload_bytes"].where(table["dropped"].fillna(predicted) == 0, 0)


def right_edge(table: DataFrame) -> Series[int]:
    """The right edge of the window after each packet: the highest byte received plus the window
    left."""
    return (table["seq"] + table["payload_bytes"] - 1).cummax() + table["window_left_bytes"]
