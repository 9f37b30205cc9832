"""How much payload a buffer permits in flight: granted size, receive window, send buffer bound.

Buffers are accounted in true size (payload and the memory around it), windows in payload. How
much of a buffer the kernel gives to the window changed with 6.6; what a sent segment costs, with
6.3. Measured figures are in tests/fixtures/theory.
"""

from __future__ import annotations

from math import ceil

from labs.guest.testbed.link import MSS_BYTES
from labs.read.theory.bdp import INITIAL_WINDOW_SEGMENTS
from labs.read.theory.kernels import CLAMP_FOLLOWS, RATIO, SMALL_HEADS, first_ratio

SEGMENT_TRUESIZE_BYTES = 2408
"""True size of one received 1448-byte segment over veth on the kernels that are built here (with
Debian's own configuration 2344: MAX_HEADER, which depends on the configuration, is in it)."""

GSO_MAX_BYTES = 65535
SMALLEST_BYTES = {"receive": 2304, "send": 4608}
"""SOCK_MIN_RCVBUF and SOCK_MIN_SNDBUF on x86-64: a packet's smallest true size, once and twice."""
SK_BUFF_BYTES, SHARED_INFO_BYTES = 256, 320
"""sizeof(struct sk_buff) and of struct skb_shared_info, aligned, x86-64."""
OVERHEAD_BYTES = SK_BUFF_BYTES + SHARED_INFO_BYTES
"""SKB_TRUESIZE(0): the metadata of each skb."""
SENT_HEADER_BYTES = 320
"""MAX_TCP_HEADER of a distribution's kernel: the linear part of a sent segment."""
ALIGNED_BYTES = 64
"""SMP_CACHE_BYTES."""
SMALL_HEAD_BYTES = 704
"""SKB_SMALL_HEAD_SIZE with the MAX_HEADER of a distribution's kernel (640 if no wireless driver is
configured)."""
KMALLOC_BYTES = (8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192)
"""The size classes of SLUB, mm/slab_common.c kmalloc_info."""


def scaling_ratio(
    payload_bytes: int = 2 * MSS_BYTES, truesize_bytes: int = SEGMENT_TRUESIZE_BYTES + MSS_BYTES
) -> int:
    """256ths of a receive buffer that become window, from 6.6 on: the payload's share of the
    first full-sized skb that arrived.

    With offloads that skb holds two segments (net.ipv4.tcp_min_tso_segs), without them one.
    Source: net/ipv4/tcp_input.c tcp_measure_rcv_mss() (6.6 and later).
    """
    return max(1, (payload_bytes << 8) // truesize_bytes)


def receive_window_bytes(
    rcvbuf_bytes: int,
    kernel: str,
    *,
    adv_win_scale: int = 1,
    offloads: bool = True,
    locked: bool = False,
    mss_bytes: int = MSS_BYTES,
) -> int:
    """The window of a receiver whose reader keeps up: rcv_ssthresh in steady state.

    `rcvbuf_bytes` is sk_rcvbuf, the granted size: tcp_rmem[2] once automatic sizing has reached it,
    or twice the size requested with SO_RCVBUF if it is `locked`.
    Up to 6.5 tcp_adv_win_scale sets the reserved share (the default 1: half), and one segment
    is missing. Since 6.6 the setting is ignored and the share is `scaling_ratio`; a locked
    buffer keeps the first ratio until 6.11. One skb's true size is always missing: the one that
    was in the queue when the window last grew.
    Source: include/net/tcp.h tcp_win_from_space(); net/ipv4/tcp_input.c tcp_grow_window().
    """
    if not RATIO.holds(kernel):
        if adv_win_scale <= 0:
            return max(0, (rcvbuf_bytes >> -adv_win_scale) - mss_bytes)
        return max(0, rcvbuf_bytes - (rcvbuf_bytes >> adv_win_scale) - mss_bytes)
    segments = 2 if offloads else 1
    # What is around the payload of one segment is the same for every MSS that fits its page.
    truesize = SEGMENT_TRUESIZE_BYTES + (segments - 1) * mss_bytes
    ratio = scaling_ratio(segments * mss_bytes, truesize)
    if locked and not CLAMP_FOLLOWS.holds(kernel):
        ratio = first_ratio(kernel)
    return max(0, (rcvbuf_bytes - SEGMENT_TRUESIZE_BYTES) * ratio >> 8)


def head_bytes(kernel: str, length: int) -> int:
    """The memory of an skb's linear part that holds `length` bytes, including its shared info.
    Source: net/core/skbuff.c kmalloc_reserve()."""
    wanted = -(-length // ALIGNED_BYTES) * ALIGNED_BYTES + SHARED_INFO_BYTES
    if SMALL_HEADS.holds(kernel) and wanted <= SMALL_HEAD_BYTES:
        return SMALL_HEAD_BYTES
    return next(size for size in KMALLOC_BYTES if size >= wanted)


def segment_overhead_bytes(kernel: str) -> int:
    """The memory of a sent skb besides its payload: 1280 until 6.2, 960 since 6.3.

    Source: net/core/skbuff.c __alloc_skb(); net/ipv4/tcp.c tcp_stream_alloc_skb().
    """
    return SK_BUFF_BYTES + head_bytes(kernel, SENT_HEADER_BYTES)


def send_bound_bytes(sndbuf_bytes: int, kernel: str, *, mss_bytes: int = MSS_BYTES) -> int:
    """Payload in flight of a bulk sender that is limited by its send buffer.

    `sndbuf_bytes` is sk_sndbuf: tcp_wmem[2] once automatic sizing has reached it. A writer that
    found the buffer full is woken only when at most two thirds of it are in use, and then fills
    it. While the buffer limits a flow, its acknowledgements arrive in one burst per round trip, and
    the amount in flight converges to the value at which that burst causes exactly two refills of a
    third each: two thirds of the buffer, not all of it. A refill begins up to one acknowledgement
    late and ends up to one skb over: one and a half skbs together, on average.
    Accurate to 2 % from 1 MiB on. With a smaller buffer the sender has more in flight than this: a
    partial segment at the tail of its queue is filled up without a check for room.
    Source: include/net/sock.h sk_stream_min_wspace(); net/core/stream.c sk_stream_write_space();
    net/ipv4/tcp.c tcp_sendmsg_locked(), label new_segment.
    """
    payload = GSO_MAX_BYTES // mss_bytes * mss_bytes
    skb = payload + segment_overhead_bytes(kernel)
    settled = 2 * sndbuf_bytes / 3 + 1.5 * skb
    whole = ceil(sndbuf_bytes / skb) * skb
    return int(min(settled, whole) * payload / skb)


def granted_bytes(requested_bytes: int, core_max_bytes: int, socket: str) -> int:
    """The size that getsockopt says afterwards: twice the request, which is capped first.

    `core_max_bytes` is net.core.rmem_max or wmem_max, `socket` "receive" or "send".
    Source: net/core/sock.c sk_setsockopt(), cases SO_RCVBUF and SO_SNDBUF;
    __sock_set_rcvbuf(); include/net/sock.h SOCK_MIN_RCVBUF, SOCK_MIN_SNDBUF.
    """
    return max(2 * min(requested_bytes, core_max_bytes), SMALLEST_BYTES[socket])


# CentOS 6, the system of the article's time: 2.6.32 with later changes, read in 2.6.32-642, x86-64.

OLD_SK_BUFF_BYTES = 232
"""struct sk_buff (include/linux/skbuff.h)."""
OLD_SEGMENT_BYTES = 1460 + 272 + 16 + OLD_SK_BUFF_BYTES
"""A segment as the send buffer counts it: the MSS of a path with an MTU of 1500, MAX_TCP_HEADER
(128 and MAX_HEADER: 96 for wireless drivers, 48 for tunnels), a margin, and struct sk_buff."""


def connected_send_bytes() -> int:
    """The send buffer when a connection is established: room for the initial congestion window.

    Source: net/ipv4/tcp_input.c tcp_fixup_sndbuf() of CentOS 6; replaced by tcp_sndbuf_expand().
    """
    return INITIAL_WINDOW_SEGMENTS * OLD_SEGMENT_BYTES


def smallest_bytes() -> dict[str, int]:
    """The smallest buffers that setsockopt gave from 3.2 (commit 7a91b434e2ba, which CentOS 6 has,
    too; before, 256 bytes to receive) to 3.10 (commit eea86af6b1e1 changed them).

    Source: include/net/sock.h SOCK_MIN_SNDBUF and SOCK_MIN_RCVBUF.
    """
    return {"send": 2048, "receive": 2048 + OLD_SK_BUFF_BYTES}


def granted_send_bytes(requested_bytes: int) -> int:
    """The send buffer after a request that wmem_max allows: twice the request as an int, which
    overflows, and no less than the minimum. Source: net/core/sock.c sock_setsockopt(), SO_SNDBUF.
    """
    doubled = (2 * requested_bytes + (1 << 31)) % (1 << 32) - (1 << 31)
    return max(doubled, smallest_bytes()["send"])
