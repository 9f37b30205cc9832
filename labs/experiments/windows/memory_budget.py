"""The parts of a receive buffer at each packet: payload, metadata, promised window, free."""

from __future__ import annotations

from pandas import DataFrame

from labs.experiments.windows.packets import packets
from labs.read.runs.run import Run
from labs.read.theory.receive_window_kernels import SHARED_INFO_BYTES, SK_BUFF_BYTES

STRUCTURES_BYTES = SK_BUFF_BYTES + SHARED_INFO_BYTES
"""The size of the structures of each packet in a queue without coalescing."""


def budget(run: Run) -> DataFrame:
    """One row per packet that has a sample of its own; the parts are sizes in bytes.

    payload_bytes      data queued for the application (Recv-Q)
    structures_bytes   struct sk_buff and struct skb_shared_info of the skbs in the queue; the
                       simulation provides their number
    unused_bytes       the rest of the memory in use: head room, and the unused rest of the
                       buffers into which the packets were written
    promised_bytes     the window that is left on the wire
    free_bytes         the rest of the buffer; 0 if more is promised than is free
    """
    table = packets(run)
    seen = table[table["rmem_bytes"].notna()]
    metadata = seen["rmem_bytes"] - seen["recv_q_bytes"]
    structures = (STRUCTURES_BYTES * seen["predicted_skbs"]).clip(upper=metadata)
    promised = seen["window_left_bytes"].clip(lower=0)
    return seen.assign(
        payload_bytes=seen["recv_q_bytes"],
        structures_bytes=structures,
        unused_bytes=metadata - structures,
        promised_bytes=promised,
        free_bytes=(seen["rcvbuf_bytes"] - seen["rmem_bytes"] - promised).clip(lower=0),
    )[[*PARTS, "packet", "rcvbuf_bytes"]]


PARTS = ("payload_bytes", "structures_bytes", "unused_bytes", "promised_bytes", "free_bytes")
"""The parts from the bottom."""
