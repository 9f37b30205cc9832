"""What a receive buffer is spent on, packet by packet: payload, metadata, waste, promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas

from labs.read.theory.receive_window_kernels import OVERHEAD_BYTES

if TYPE_CHECKING:
    from pandas import DataFrame

PARTS = ("payload_bytes", "metadata_bytes", "unused_bytes", "promised_bytes", "free_bytes")
"""The parts in the order in which they are stacked; their sum is the buffer."""


def budget(table: DataFrame) -> DataFrame:
    """The parts of the buffer after each packet of labs.experiments.windows.packets.packets.

    packet          its number
    payload_bytes   what the program has not read, and what waits out of order
    metadata_bytes  struct sk_buff and struct skb_shared_info of each skb in the queues: 576 bytes
                    each. The number of skbs is the simulation's.
    unused_bytes    the rest of the memory in use: parts of the skbs' heads that hold no payload
    promised_bytes  what the sender may still send
    free_bytes      the rest of the buffer; negative where more is in use, or promised, than there
                    is
    """
    memory = table["rmem_bytes"]
    payload = table["recv_q_bytes"] + table["predicted_out_of_order_bytes"]
    metadata = table["predicted_skbs"] * OVERHEAD_BYTES
    promised = table["window_left_bytes"].clip(lower=0)
    return pandas.DataFrame(
        {
            "packet": table["packet"],
            "payload_bytes": payload,
            "metadata_bytes": metadata,
            "unused_bytes": memory - payload - metadata,
            "promised_bytes": promised,
            "free_bytes": table["rcvbuf_bytes"] - memory - promised,
        }
    )
