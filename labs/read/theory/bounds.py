"""What limits a flow, and its steady goodput."""

from __future__ import annotations

from dataclasses import dataclass

from labs.drive.kernel.memory_size import LARGE_BUFFERS_SINCE
from labs.drive.testbed.link import MSS_BYTES
from labs.drive.units import KIB, MIB
from labs.read.theory.bdp import bdp_bytes, line_goodput_bytes_s
from labs.read.theory.refills import refilled_bytes_s
from labs.read.theory.windows import (
    receive_window_bytes,
    segment_overhead_bytes,
    send_bound_bytes,
    series,
)

LINE = "line"
RECEIVE_WINDOW = "receive window"
SEND_BUFFER = "send buffer"

TOLERANCE_PCT = {LINE: 0.5, RECEIVE_WINDOW: 1.0, SEND_BUFFER: 2.0}
"""How far a steady flow may lie from its prediction, by what holds it back."""

SMALLEST_SENDBUF_BYTES = MIB
"""With a smaller send buffer the turns of its writer count: `refilled_bytes_s` plays them."""

PLAYED_TOLERANCE_PCT = 4.0
SMALLEST_PLAYED_BYTES = 32 * KIB
"""Below, one packet is a quarter of the buffer, and what is played is a guess."""

WHOLE_WINDOW = 0.98
"""From this share of it on it is the receive window that holds a flow, not the send buffer."""

FULL_LINE = 0.999

LARGE_CORE_MAX_SINCE = (6, 18)
DEFAULT_WMEM = (4096, 16384, 4194304)
"""net.ipv4.tcp_wmem since Linux 4.18, with 1 GiB of memory or more."""


def default_rmem(kernel: str) -> tuple[int, int, int]:
    """net.ipv4.tcp_rmem of a kernel since 4.20 whose memory does not limit it: 1 GiB or more, and
    5 GiB or more since 6.16. Source: net/ipv4/tcp.c tcp_init()."""
    return 4096, 131072, 32 * MIB if series(kernel) >= LARGE_BUFFERS_SINCE else 6 * MIB


def default_core_max_bytes(kernel: str) -> int:
    """net.core.rmem_max and wmem_max of a kernel. Source: include/net/sock.h SK_RMEM_MAX, and
    net/core/sock.c sysctl_rmem_max since 6.18."""
    return 4 * MIB if series(kernel) >= LARGE_CORE_MAX_SINCE else 212_992


@dataclass(frozen=True)
class Prediction:
    """A flow's goodput in steady state, and what limits it.

    `goodput_bytes_s` is payload; `under_way_bytes` is the payload in flight at that rate.
    `window_bytes` and `send_bytes` are the amounts in flight that the receiver's and the sender's
    buffer permit, `line_bytes_s` what the link carries (None: it is not shaped). `tolerance_pct` is
    None where the theory is known to be inaccurate (send buffers below 1 MiB under a larger window,
    and below 32 KiB).
    """

    goodput_bytes_s: float
    bound: str
    under_way_bytes: float
    window_bytes: int
    send_bytes: int
    bdp_bytes: float | None
    line_bytes_s: float | None
    tolerance_pct: float | None

    @property
    def goodput_mib_s(self) -> float:
        """In wget's unit, which it writes MB/s."""
        return self.goodput_bytes_s / MIB


@dataclass(frozen=True)
class Bound:
    """A goodput that a flow cannot exceed, what sets it, and how accurately it is known."""

    goodput_bytes_s: float
    name: str
    tolerance_pct: float | None


def predict(
    *,
    rate_mbit: float | None,
    rtt_ms: float,
    tcp_rmem: tuple[int, int, int],
    tcp_wmem: tuple[int, int, int],
    kernel: str,
    adv_win_scale: int = 1,
    offloads: bool = True,
    mss_bytes: int = MSS_BYTES,
    rcvbuf_bytes: int | None = None,
    sndbuf_bytes: int | None = None,
) -> Prediction | None:
    """The steady goodput of a bulk transfer whose buffers are sized automatically.

    The smallest of: the line's payload rate; the receive window over the round trip; the send
    buffer's bound over the round trip. `rtt_ms` is the unloaded one. A buffer that was set by
    a program keeps the size that setsockopt granted, `rcvbuf_bytes` or `sndbuf_bytes`. None for a
    flow that is limited by none of these (no rate and no RTT), only by the machine.
    """
    window = receive_window_bytes(
        max(tcp_rmem[1:]) if rcvbuf_bytes is None else rcvbuf_bytes,
        kernel,
        adv_win_scale=adv_win_scale,
        offloads=offloads,
        locked=rcvbuf_bytes is not None,
        mss_bytes=mss_bytes,
    )
    sndbuf = max(tcp_wmem[1:]) if sndbuf_bytes is None else sndbuf_bytes
    line = None if rate_mbit is None else line_goodput_bytes_s(rate_mbit, mss_bytes)
    candidates = [] if line is None else [Bound(line, LINE, TOLERANCE_PCT[LINE])]
    if rtt_ms > 0:
        candidates += _of_buffers(window, sndbuf, rtt_ms, rate_mbit, kernel, mss_bytes)
    if not candidates:
        return None
    held = min(candidates, key=lambda candidate: candidate.goodput_bytes_s)
    if line is not None and held.goodput_bytes_s > FULL_LINE * line:
        held = candidates[0]
    under_way = held.goodput_bytes_s * rtt_ms / 1e3
    return Prediction(
        goodput_bytes_s=held.goodput_bytes_s,
        bound=held.name,
        under_way_bytes=under_way,
        window_bytes=window,
        send_bytes=round(under_way)
        if held.name == SEND_BUFFER
        else (send_bound_bytes(sndbuf, kernel, mss_bytes=mss_bytes)),
        bdp_bytes=None if rate_mbit is None else bdp_bytes(rate_mbit, rtt_ms),
        line_bytes_s=line,
        tolerance_pct=held.tolerance_pct,
    )


def _of_buffers(
    window_bytes: int,
    sndbuf_bytes: int,
    rtt_ms: float,
    rate_mbit: float | None,
    kernel: str,
    mss_bytes: int,
) -> list[Bound]:
    """What the two buffers allow over the round trip; of small ones what both allow together."""
    rtt_s = rtt_ms / 1e3
    # Only whole segments are sent into a window.
    window = window_bytes // mss_bytes * mss_bytes / rtt_s
    small = sndbuf_bytes < SMALLEST_SENDBUF_BYTES
    if small and window_bytes <= sndbuf_bytes:
        refilled = refilled_bytes_s(
            sndbuf_bytes,
            window_bytes,
            rtt_ms=rtt_ms,
            rate_mbit=rate_mbit,
            mss_bytes=mss_bytes,
            overhead_bytes=segment_overhead_bytes(kernel),
        )
        name = RECEIVE_WINDOW if refilled >= WHOLE_WINDOW * window else SEND_BUFFER
        known = sndbuf_bytes >= SMALLEST_PLAYED_BYTES
        return [Bound(refilled, name, PLAYED_TOLERANCE_PCT if known else None)]
    send = send_bound_bytes(sndbuf_bytes, kernel, mss_bytes=mss_bytes) / rtt_s
    return [
        Bound(window, RECEIVE_WINDOW, TOLERANCE_PCT[RECEIVE_WINDOW]),
        Bound(send, SEND_BUFFER, None if small else TOLERANCE_PCT[SEND_BUFFER]),
    ]
