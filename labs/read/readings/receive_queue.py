"""A receive queue, one row per data segment: the receiver's memory, the window on the wire, the
prediction; the same by round trip; and its events: packets dropped, the queue collapsed.

Three sources meet here: the receiver's samples of its own socket, one after each segment; the
capture; and the simulation of labs/read/theory/receiver_steps.py, whose input
after the handshake is the arrivals, and nothing that the receiver did.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy
import pandas
from pandas import DataFrame, Series

from labs.errors import Damaged
from labs.guest.units import SECOND_NS
from labs.read import capture
from labs.read.capture.segment_table import ACK, PSH, SYN
from labs.read.display.beside import last_match
from labs.read.parse.socket_samples import SocketSample, samples, truesizes
from labs.read.runs.raw_files import as_text
from labs.read.runs.run import Run
from labs.read.theory.receiver import TIMESTAMP_BYTES, Setup
from labs.read.theory.receiver_memory import Fate
from labs.read.theory.receiver_steps import Read, Segment, steps
from labs.read.theory.windows import OVERHEAD_BYTES, SK_BUFF_BYTES

Array: TypeAlias = "numpy.ndarray[Any, numpy.dtype[Any]]"
RECEIVER = "server"
TOGETHER_NS = 100_000
"""Segments that arrive at smaller intervals were sent at the same time."""
EARLY = 0.05
"""A share of a round trip: a packet that is at most this early belongs to the next round trip."""
DROPS = "TcpExtTCPRcvQDrop"
MEMORY = {
    "data_segs_in": "packet",
    "rcvbuf": "rcvbuf_bytes",
    "rmem_alloc": "rmem_bytes",
    "bytes_received": "received_bytes",
    "rcvq_bytes": "recv_q_bytes",
    "rcv_ssthresh": "rcv_ssthresh_bytes",
    "rcv_wnd": "rcv_wnd_bytes",
}
"""Columns of the samples, and their names here."""
MARKS = {
    "coalesced": ("TCPRcvCoalesce",),
    "collapsed": ("TCPRcvCollapsed",),
    "dropped": ("TCPRcvQDrop", "TCPOFODrop", "TCPZeroWindowDrop", "BeyondWindow"),
}
"""Marks, and the counters whose increase they show."""


def observed(run: Run, return_ns: int) -> tuple[DataFrame, DataFrame]:
    """The segments of the receiver's capture, and one row per data segment that arrived.

    packet                        its number, from 1
    time_s                        time since the first of them arrived
    seq, payload_bytes, end       its first byte, relative to the connection, its length, and the
                                  number after its last byte
    push                          whether it has the flag PSH
    window_left_bytes             what the sender may still send: the right edge that the last ACK
                                  before the next segment offers, less the highest byte received
    acked_bytes                   how much that ACK acknowledges
    rcvbuf_bytes, rmem_bytes, recv_q_bytes, rcv_ssthresh_bytes, rcv_wnd_bytes, received_bytes
                                  the receiver's sample after the segment; missing if there was none
                                  before the next segment
    coalesced, collapsed, dropped increases of the counters in MARKS since the last sample; a
                                  segment that was not kept counts as dropped, even if no
                                  counter shows it (beyond the window, until 6.16)

    The capture shows the receiver's ACKs `return_ns` after it sent them.
    """
    segments = capture.read(run.file(f"{RECEIVER}/capture.pcap"))
    table = arrivals(segments)
    table = table.join(sampled(run, len(table)))
    table["dropped"] = table["dropped"].mask(unkept(table) & (table["dropped"] == 0), 1)
    return segments, table.join(window_on_the_wire(segments, table, return_ns))


def simulated(
    table: DataFrame,
    setup: Setup,
    reads: Iterable[Read],
    until_ns: int,
    *,
    head: int | None,
    on_loopback: bool,
) -> DataFrame:
    """What the simulation has for the arrivals of a table of packets, until a time, as columns
    `predicted_...`: the fields of its steps, and `window_left_bytes`. Without `on_loopback`,
    packets are treated as parts of large ones."""
    full_bytes = setup.mss_bytes - (TIMESTAMP_BYTES if setup.timestamps else 0)
    arrived = table[["time_ns", "seq", "payload_bytes", "push"]].assign(
        alone=sent_alone(table, full_bytes) & on_loopback
    )
    fed = [Segment(*row) for row in arrived.itertuples(index=False, name=None)]
    states = DataFrame(map(vars, steps(setup, fed, reads, head=head, until_ns=until_ns)))
    states["window_left_bytes"] = states["right_edge"] - table["end"].cummax()
    return states.drop(columns=["segment", "acks"]).add_prefix("predicted_")


def samples_of(run: Run) -> tuple[SocketSample, ...]:
    """The samples that the receiver took of its socket."""
    return run.read(f"{RECEIVER}/samples.csv", as_text(samples))


def overhead_bytes(run: Run) -> int | None:
    """The least memory that a packet needs besides its payload, as measured on the kernel of the
    run; None for a run without that measurement."""
    name = f"{RECEIVER}/truesizes.csv"
    if name not in run.seal.files:
        return None
    return min(truesize - payload for payload, truesize in run.read(name, as_text(truesizes)))


def arrivals(segments: DataFrame) -> DataFrame:
    """The data segments that arrived, in the order of arrival."""
    data = segments[(segments["direction"] == 0) & (segments["payload_bytes"] > 0)]
    if data.empty:
        raise Damaged("the capture has no data segment")
    time_ns = data["time_ns"].to_numpy()
    return DataFrame(
        {
            "packet": numpy.arange(1, len(data) + 1),
            "time_ns": time_ns,
            "time_s": (time_ns - time_ns[0]) / SECOND_NS,
            "seq": data["seq_rel"].to_numpy(),
            "payload_bytes": data["payload_bytes"].to_numpy(),
            "end": (data["seq_rel"] + data["payload_bytes"]).to_numpy(),
            "push": (data["flags"].to_numpy() & PSH) != 0,
        }
    )


def window_on_the_wire(segments: DataFrame, table: DataFrame, return_ns: int) -> DataFrame:
    """The last window that the receiver offered before each next segment, and what it
    acknowledged.

    An ACK belongs to the last segment that arrived before it was sent. It may have waited for
    other packets before it was captured. Its acknowledgement number therefore decides, if the next
    segment would have raised it.
    """
    back = segments[(segments["direction"] == 1) & ((segments["flags"] & ACK) != 0)]
    ack = back["ack_rel"].to_numpy()
    edge = ack + back["window_bytes"].to_numpy()
    arrived_ns = table["time_ns"].to_numpy()
    expected = expected_next(table)
    sampled = pandas.notna(table["received_bytes"].iloc[0])
    place = numpy.searchsorted(arrived_ns, back["time_ns"].to_numpy() - return_ns, "right") - 1
    first = numpy.searchsorted(expected, ack, "left")
    last = numpy.searchsorted(expected, ack, "right") - 1
    place = numpy.maximum(place, first)
    if sampled:
        place = numpy.minimum(place, numpy.maximum(first, last))
    place = numpy.where(ack > 1, place, -1)
    place = numpy.maximum.accumulate(place)
    last_ack = numpy.searchsorted(place, numpy.arange(len(table)), "right") - 1
    if (last_ack < 0).any():
        raise Damaged("the capture has data before the first segment of the receiver")
    return DataFrame(
        {
            "window_left_bytes": edge[last_ack] - table["end"].cummax(),
            "acked_bytes": ack[last_ack] - 1,
        }
    )


def expected_next(table: DataFrame) -> Array:
    """The next sequence number that the receiver expects after each segment: from its samples, or,
    without samples, under the assumption that it dropped nothing."""
    if pandas.notna(table["received_bytes"].iloc[0]):
        return (table["received_bytes"].ffill() + 1).to_numpy(numpy.int64)
    after_each, expected = [], 1
    for seq, end in zip(table["seq"], table["end"], strict=True):
        if seq <= expected:
            expected = max(expected, end)
        after_each.append(expected)
    return numpy.array(after_each)


def sampled(run: Run, count: int) -> DataFrame:
    """The receiver's sample after each of `count` segments, and the increases of the counters."""
    taken = samples_of(run)
    memory = DataFrame(map(vars, taken))[[*MEMORY]].rename(columns=MEMORY)
    for mark, counters in MARKS.items():
        totals = [sum(sample.counters.get(name) or 0 for name in counters) for sample in taken]
        memory[mark] = numpy.diff(totals, prepend=totals[:1])
    # An increase over several packets is assigned to none of them.
    marks = memory[list(MARKS)].astype("Int64")
    memory[list(MARKS)] = marks.mask(memory["packet"].diff() > 1)
    memory = memory[memory["packet"] > 0].drop_duplicates("packet").set_index("packet")
    return memory.reindex(range(1, count + 1)).reset_index(drop=True).astype("Int64")


def unkept(table: DataFrame) -> Series[bool]:
    """Segments of new data that the receiver did not keep: neither the data received nor the memory
    in use grew."""
    new = table["end"] > numpy.append(1, expected_next(table)[:-1])
    grown = table[["received_bytes", "rmem_bytes"]].ffill().diff().fillna(1) > 0
    lost: Series[bool] = ~grown.any(axis="columns") & new & table["rmem_bytes"].notna()
    return lost


def sent_alone(table: DataFrame, full_bytes: int) -> Series[bool]:
    """Which segments were packets of their own, and not parts of a large one (GSO), judged by their
    arrival: those without a neighbour, and small ones that do not end a large one.

    Arrivals do not show how retransmissions were sent; they are treated as parts. Where that is
    wrong (over loopback with losses), the simulated memory is too small from there on.
    """
    is_next = (table["seq"] == table["end"].shift(1)) & (table["time_ns"].diff() < TOGETHER_NS)
    is_full = table["payload_bytes"] == full_bytes
    ends_large = is_next & is_full.shift(1, fill_value=False)
    begins_large = is_next.shift(-1, fill_value=False) & is_full
    return ~(ends_large | begins_large)


def head_bytes(table: DataFrame) -> int | None:
    """The head of the first segment's skb: its true size without payload and struct sk_buff."""
    memory = table["rmem_bytes"].iloc[0]
    if pandas.isna(memory):
        return None
    return int(memory) - int(table["payload_bytes"].iloc[0]) - SK_BUFF_BYTES


def parts(table: DataFrame) -> DataFrame:
    """What fills the receive buffer at each packet that has a sample of its own, in bytes.

    payload_bytes      data queued for the application (Recv-Q)
    structures_bytes   struct sk_buff and struct skb_shared_info of the skbs in the queue; the
                       simulation provides their number
    unused_bytes       the rest of the memory in use: head room, and the unused rest of the
                       buffers into which the packets were written
    promised_bytes     the window that is left on the wire
    free_bytes         the rest of the buffer; 0 if more is promised than is free
    """
    seen = table[table["rmem_bytes"].notna()]
    metadata = seen["rmem_bytes"] - seen["recv_q_bytes"]
    structures = (OVERHEAD_BYTES * seen["predicted_skbs"]).clip(upper=metadata)
    promised = seen["window_left_bytes"].clip(lower=0)
    columns = {
        "payload_bytes": seen["recv_q_bytes"],
        "structures_bytes": structures,
        "unused_bytes": metadata - structures,
        "promised_bytes": promised,
        "free_bytes": (seen["rcvbuf_bytes"] - seen["rmem_bytes"] - promised).clip(lower=0),
    }
    return seen.assign(**columns)[["packet", "rcvbuf_bytes", *columns]]


@dataclass(frozen=True)
class SynAck:
    """The window that the receiver's SYN-ACK offered, and its scale."""

    window_bytes: int
    wscale: int


def syn_of_receiver(segments: DataFrame) -> DataFrame:
    """The receiver's SYN, with its options. Damaged for a capture without one."""
    syn = segments[(segments["direction"] == 1) & ((segments["flags"] & SYN) != 0)]
    if syn.empty:
        raise Damaged("the capture has no SYN of the receiver")
    return syn


def syn_ack(run: Run) -> SynAck:
    """The window and the window scale of the receiver's SYN-ACK; the scale is 0 without that
    option."""
    path = run.file(f"{RECEIVER}/capture.pcap")
    syn = syn_of_receiver(capture.read(path))
    wscale = int(capture.connections(path)["server_wscale"].iloc[0])
    return SynAck(int(syn["window_bytes"].iloc[0]), max(0, wscale))


def by_round_trip(table: DataFrame, rtt_ms: float) -> DataFrame:
    """One row per round trip in which a packet of a table arrived.

    Columns: `round_trip` (from 1), `packets`, `payload_bytes` of the accepted packets,
    `window_bytes` (the largest that the receiver offered in it: from the last acknowledged
    byte to the right edge), `rcv_ssthresh_bytes` and `window_left_bytes` at the end, and `updates`,
    the number of times that the right edge moved.
    """
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
    predicted = (table["predicted_fate"] == Fate.DROPPED).astype(int)
    return table["payload_bytes"].where(table["dropped"].fillna(predicted) == 0, 0)


def right_edge(table: DataFrame) -> Series[int]:
    """The right edge of the window after each packet: the highest byte received plus the window
    left."""
    return table["end"].cummax() - 1 + table["window_left_bytes"]


def at_marks(table: DataFrame, mark: str) -> DataFrame:
    """The packets with a mark, and the sizes of the packet before each, in columns `before_...`."""
    before = table.select_dtypes("number").shift(1, fill_value=0).add_prefix("before_")
    return table.join(before)[table[mark].fillna(0) > 0]


def printed_drops(run: Run) -> str:
    """The line with which nstat -az tells the receiver's drops at the end of a run."""
    return last_match(run, f"{RECEIVER}/nstat-after.txt", rf"^{DROPS} .*$")
