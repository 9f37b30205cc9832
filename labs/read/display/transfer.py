"""A bulk transfer in sentences: what had to be in flight, what was, what limited it, and what its
sender waited for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from labs.read.display.format import RTT_BELOW_MS, milliseconds, size_in_words
from labs.read.readings.instruments import shaper_drops
from labs.read.theory.bdp import bdp_bytes, line_goodput_bytes_s, payload_share
from labs.read.theory.bulk import LINK
from labs.read.theory.bulk_sender import (
    CONGESTION_WINDOW,
    NAGLE_HOLDS,
    RECEIVE_WINDOW,
    SEND_BUFFER,
    SLOW_START,
)

if TYPE_CHECKING:
    from labs.read.readings.bulk_transfer import Window
    from labs.read.runs.run import Run

BOUNDS = {
    LINK: "the rate of the link",
    RECEIVE_WINDOW: "the receive window",
    SEND_BUFFER: "the send buffer",
    CONGESTION_WINDOW: "the congestion window",
    SLOW_START: "slow start",
    NAGLE_HOLDS: "Nagle's algorithm",
}
"""What limits a transfer, by the theory's names."""
WAITED = {
    RECEIVE_WINDOW: "for the receive window",
    SEND_BUFFER: "for room in its send buffer, which was full of unacknowledged data",
}
"""What a sender waits for, by the clocks of tcp_info."""
MOST_PCT = 50.0
FULL, QUEUED = 0.95, 2.0
"""Data in flight as a share of what fills the link: at the first it is full, at the second as much
again waits in the queue."""


def describe_transfer(
    run: Run, window: Window, bound: str | None, steady_bytes_s: float | None
) -> Iterator[str]:
    """The BDP, the data in flight, the limit in theory (`bound`), and the waits of the sender."""
    rate_mbit, rtt_ms = run.link.measured.rate_mbit or 0.0, run.link.measured.rtt_ms
    fills_bytes = bdp_bytes(rate_mbit, rtt_ms) * payload_share()
    if fills_bytes:
        below = "less than " if rtt_ms < RTT_BELOW_MS else ""
        bdp = size_in_words(bdp_bytes(rate_mbit, max(rtt_ms, RTT_BELOW_MS)))
        yield (
            f"The link carries {rate_mbit:.4g} Mbit/s and its RTT is {milliseconds(rtt_ms)}, so "
            f"{below}**{bdp}** must be in flight to fill it (the bandwidth-delay product, BDP)."
        )
    yield (
        f"The median of the data in flight was **{size_in_words(window.usually_in_flight_bytes)}**,"
        f" the maximum {size_in_words(window.in_flight_bytes)}. The receiver advertised at most "
        f"{size_in_words(window.offered_bytes)}, and the congestion window reached "
        f"{size_in_words(window.congestion_bytes)}."
    )
    # In flight is counted in payload; the link carries headers, too.
    share = window.usually_in_flight_bytes / fills_bytes if fills_bytes else 0.0
    reached = steady_bytes_s is None or steady_bytes_s >= FULL * line_goodput_bytes_s(rate_mbit)
    full = share >= FULL and bound in (LINK, None) and reached
    if full:
        queued = ", and most of it waited in the queue in front of the link" * (share >= QUEUED)
        yield f"This fills the link{queued}."
    elif fills_bytes:
        other = ", but it was less at other times" * (share >= FULL)
        yield f"This is {100 * share:.0f} % of the payload that fills the link{other}."
    yield from _counted(run)
    if bound is not None:
        yield f"The goodput is limited by {BOUNDS[bound]}."
    waits = {name: pct for name, pct in window.limited_pct.items() if pct >= MOST_PCT}
    for name, pct in waits.items():
        yield (
            f"While it had data to send, the sender waited {pct:.0f} % of the time {WAITED[name]} "
            "(`tcp_info`)."
        )
    if waits and full and bound == LINK:
        yield (
            "This costs no goodput: the link is full, and what exceeds the BDP waits in the queue."
        )


def _counted(run: Run) -> Iterator[str]:
    if again := run.nstat("server").get("TcpRetransSegs", 0):
        yield f"{again} segments were retransmitted."
    if drops := 0 if run.link.asked.loss_pct else shaper_drops(run):
        yield f"The queue in front of the link overflowed and dropped {drops} packets."
