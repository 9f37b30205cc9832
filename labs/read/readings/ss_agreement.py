"""Moments of a run at which `ss` printed and the sampler took a sample: do the two agree?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas

from labs.read.readings.goodput import own_socket
from labs.read.runs.run import Run

if TYPE_CHECKING:
    from pandas import DataFrame

# What both say in the same unit, of all that a timeline shows and of what moves fastest.
COMPARED = (
    "recv_q_bytes",
    "send_q_bytes",
    "rmem_alloc_bytes",
    "rcvbuf_bytes",
    "wmem_queued_bytes",
    "sndbuf_bytes",
    "snd_cwnd_segments",
    "snd_mss_bytes",
    "unacked_segments",
    "snd_wnd_bytes",
    "rcv_ssthresh_bytes",
    "rcv_space_bytes",
    "bytes_acked",
    "bytes_received",
    "notsent_bytes",
)
OF_SS = "_of_ss"


def instants(run: Run, host: str, counter: str) -> DataFrame:
    """A row a moment that both have of the download's socket: `at_ns`, `differs`, and the samples'
    columns; what `ss` said stands beside them with `_of_ss` behind the name.

    `differs` names the fields that are not the same, with blanks between; "" for none. ss leaves
    out what is zero. `counter` tells the socket (see `own_socket`).
    """
    own, printed = own_socket(run.samples(host), counter), run.ss(host)
    shared = ["at_ns", "local_port", "peer_port"]
    if own.empty or not set(shared) <= set(printed):
        return pandas.DataFrame({"at_ns": [], "differs": []})
    both = own.merge(printed, on=shared, suffixes=("", OF_SS))
    fields = [name for name in COMPARED if name + OF_SS in both]
    return both.assign(
        differs=[
            " ".join(name for name in fields if not _same(row[name], row[name + OF_SS]))
            for row in both.to_dict("records")
        ]
    )


def _same(sampled: float, printed: float) -> bool:
    if printed != printed:
        return not sampled or sampled != sampled
    return sampled == printed
