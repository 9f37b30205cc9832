"""The parts of a receive buffer at each packet: payload, metadata, promised window, free."""

from __future__ import annotations

from pandas import DataFrame
from plotly.graph_objects import Figure, Scatter

from labs.experiments.windows.charts.packet_lines import BUFFER, BY_PACKET, line, spread
from labs.experiments.windows.packets import packets
from labs.read.display.format import in_digits
from labs.read.display.provenance import of_run
from labs.read.figures.style import BLUE, GREEN, GRID, ORANGE, SKY, dressed, nothing
from labs.read.runs.run import Run
from labs.read.theory.receive_window_kernels import SHARED_INFO_BYTES, SK_BUFF_BYTES

PARTS = {
    "payload_bytes": ("payload (Recv-Q)", GREEN),
    "structures_bytes": ("sk_buff and skb_shared_info", BLUE),
    "unused_bytes": ("unused rest of the packets' buffers", SKY),
    "promised_bytes": ("promised window", ORANGE),
    "free_bytes": ("free", GRID),
}
"""The parts of a buffer from the bottom: column, name and colour."""
STRUCTURES_BYTES = SK_BUFF_BYTES + SHARED_INFO_BYTES
"""The size of the structures of each packet in a queue without coalescing."""
SIMULATED = (
    "the number of skbs, which divides the metadata into structures and unused rest, is simulated"
)


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


def by_part(run: Run) -> Figure:
    """The parts of a receive buffer at each packet, one on top of the other.

    Where the promised window ends above the buffer, the receiver has promised memory that it does
    not have, even if the packets still to come needed no memory besides their payload.
    """
    title = f"What the receive buffer holds: {run.condition}"
    table = budget(run)
    if table.empty:
        return nothing(title, "no data packet arrived in this run", of_run(run))
    figure = Figure(
        [
            Scatter(
                x=table["packet"].tolist(),
                y=table[column].tolist(),
                mode="lines",
                stackgroup="parts",
                name=name,
                line={"width": 2, "color": colour},
                fillcolor=colour,
                hovertemplate="%{y:,} bytes<extra>" + name + "</extra>",
            )
            for column, (name, colour) in PARTS.items()
        ]
    )
    figure.add_trace(line(table, BUFFER))
    figure.update_xaxes(title=BY_PACKET.title)
    figure.update_yaxes(title="bytes", rangemode="tozero", tickformat=",")
    figure.update_layout(hovermode="x unified")
    names = {column: f"{name}, bytes" for column, (name, _) in PARTS.items()}
    return dressed(
        figure,
        title=title,
        caption=f"{of_run(run)}<br>{SIMULATED}",
        height=480,
        tell=_tell(table),
        table=spread(table)[["packet", *names]].rename(columns=names),
    )


def _tell(table: DataFrame) -> str:
    """The text alternative: the parts at the last packet."""
    last = table.iloc[-1]
    said = ", ".join(f"{name} {in_digits(last[column])}" for column, (name, _) in PARTS.items())
    return f"At packet {int(last['packet']):,}, in bytes: {said}."
