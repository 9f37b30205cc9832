"""What the model of a bulk transfer is told: the link, both ends, and the programs."""

from __future__ import annotations

from dataclasses import dataclass

from labs.errors import BadInput
from labs.read.theory.kernels import DEFAULT_WMEM, default_rmem

CUBIC, RENO = "cubic", "reno"
CONGESTION_CONTROLS = (CUBIC, RENO)
"""The congestion controls that the model knows."""
IPERF3_WRITES = 10
"""iperf3 writes up to ten blocks after each select()."""


@dataclass(frozen=True, kw_only=True)
class Flow:
    """One transfer by a program that writes blocks, to a program that reads.

    Buffers are granted sizes (twice the request); None is automatic. `sndbuf_locked` and
    `rcvbuf_locked`: set by the program with setsockopt, before the connection; otherwise a fixed
    buffer is set by the sysctls tcp_wmem and tcp_rmem. `tcp_rmem` and `tcp_wmem` None: the kernel's
    defaults. `mss_bytes` is payload per segment. The writer waits for room with select() after
    `writes_per_wake` blocks; 0: it blocks in each write. With `header_bytes` it is nginx, which
    sends a header of that size and then a file, of the size of the transfer, by sendfile().
    `read_bytes` is what the reader requests per read (None: as much as is written at once), and
    with `reads_whole` it waits for all of it (MSG_WAITALL). With `pause_ms` it stops reading for
    that long after every 500 ms. After `limit_s` it closes the connection.

    The link drops `loss_pct` of the segments at random, and what arrives while its queue, which
    includes the packets that are delayed, has `queue_packets` (None: no limit). Without `offloads`
    it counts segments, and otherwise what the sender hands down in one piece.
    """

    rate_mbit: float
    rtt_ms: float
    kernel: str
    mss_bytes: int = 1448
    sndbuf_bytes: int | None = None
    rcvbuf_bytes: int | None = None
    sndbuf_locked: bool = False
    rcvbuf_locked: bool = False
    tcp_rmem: tuple[int, int, int] | None = None
    tcp_wmem: tuple[int, int, int] | None = None
    write_bytes: int = 131_072
    writes_per_wake: int = IPERF3_WRITES
    nodelay: bool = False
    header_bytes: int = 0
    keep_alive: bool = False
    read_bytes: int | None = None
    reads_whole: bool = False
    offloads: bool = True
    adv_win_scale: int = 1
    core_max_bytes: int | None = None
    congestion: str = CUBIC
    queue_packets: int | None = None
    loss_pct: float = 0.0
    pause_ms: int | None = None
    limit_s: float | None = None


def checked(flow: Flow, transfer_bytes: int) -> None:
    """BadInput for a link, an MSS, a block or a transfer that is impossible."""
    for name, value, allowed in (
        ("rate_mbit", flow.rate_mbit, "more than 0"),
        ("rtt_ms", flow.rtt_ms, "more than 0: without a round trip no buffer limits a flow"),
        ("mss_bytes", flow.mss_bytes, "at least 1"),
        ("write_bytes", flow.write_bytes, "at least 1"),
        ("transfer_bytes", transfer_bytes, "at least 1"),
    ):
        if value <= 0:
            raise BadInput(f"{name} is {value:g}. Allowed: {allowed}")
    if flow.congestion not in CONGESTION_CONTROLS:
        allowed = ", ".join(CONGESTION_CONTROLS)
        raise BadInput(f"congestion control {flow.congestion} is unknown. Allowed: {allowed}")
    if flow.loss_pct and flow.offloads:
        raise BadInput("a loss needs offloads=False: the model drops segments, not whole packets")


def buffers(flow: Flow) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """tcp_rmem and tcp_wmem, which also fix a buffer that setsockopt does not fix."""
    rmem = flow.tcp_rmem or default_rmem(flow.kernel)
    wmem = flow.tcp_wmem or DEFAULT_WMEM
    if flow.rcvbuf_bytes is not None and not flow.rcvbuf_locked:
        rmem = (rmem[0], flow.rcvbuf_bytes, flow.rcvbuf_bytes)
    if flow.sndbuf_bytes is not None and not flow.sndbuf_locked:
        wmem = (wmem[0], flow.sndbuf_bytes, flow.sndbuf_bytes)
    return rmem, wmem
