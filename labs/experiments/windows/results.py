"""The results of a run of the lab `windows`: what the receive buffer holds at the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from labs.drive.result_columns import Note, column
from labs.read.parse.socket_samples import samples
from labs.read.runs.raw_files import as_text
from labs.read.runs.run import Run


@dataclass(frozen=True, kw_only=True)
class Results:
    """The figures of one run."""

    recv_q: int = column("bytes in the receive queue at the end", unit="bytes", headline=True)
    skmem_r: int = column("memory of the receive queue at the end", unit="bytes")
    skmem_rb: int = column("receive buffer, sk_rcvbuf", unit="bytes")
    rcv_q_drop: int | None = column("segments dropped for lack of memory, TCPRcvQDrop")
    collapsed: int | None = column("buffers freed by collapsing, TCPRcvCollapsed")
    arrivals: int = column("data segments that arrived")
    unseen: int = column("arrivals without a sample of their own")
    notes: tuple[Note, ...] = field(default=())


def results(run: Run) -> Results:
    """The figures of one run."""
    found = run.read("server/samples.csv", as_text(samples))
    last = found[-1]
    steps = [other.data_segs_in - one.data_segs_in for one, other in pairwise(found)]
    return Results(
        recv_q=last.rcvq_bytes,
        skmem_r=last.rmem_alloc,
        skmem_rb=last.rcvbuf,
        rcv_q_drop=last.counters["TCPRcvQDrop"],
        collapsed=last.counters["TCPRcvCollapsed"],
        arrivals=last.data_segs_in,
        unseen=sum(step - 1 for step in steps if step),
    )
