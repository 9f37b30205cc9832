"""The socket buffers in kernels of the article's time, from their source.

The functions are those of CentOS 6 (2.6.32 with later changes; read in 2.6.32-642), the sizes those
of its x86-64 kernel.
"""

from __future__ import annotations

from labs.drive.units import KIB

SK_BUFF_BYTES = 232
"""struct sk_buff (include/linux/skbuff.h)."""
MSS_CLAMP_BYTES = 1460
"""The MSS option of a path with an MTU of 1500."""
MAX_TCP_HEADER_BYTES = 272
"""128 and MAX_HEADER: 96 for wireless drivers, 48 for tunnels (include/linux/netdevice.h)."""
MARGIN_BYTES = 16
INIT_CWND = 10
"""TCP_INIT_CWND."""
OLD_RMEM_BYTES = 87_380
"""tcp_rmem[1] before RMEM_SINCE (net/ipv4/tcp.c tcp_init(); commit a337531b942b)."""
RMEM_SINCE = "4.20"
MINIMUM = ("3.2", "3.10")
"""The first and the last series whose smallest receive buffer was 2,048 bytes and a struct sk_buff
(commits 7a91b434e2ba and eea86af6b1e1); before, it was 256 bytes. CentOS 6 has the first of these
commits."""
INT_BITS = 32


def connected_send_bytes() -> int:
    """The send buffer when a connection is established: room for the initial congestion window.

    Source: net/ipv4/tcp_input.c tcp_fixup_sndbuf() of CentOS 6; replaced by tcp_sndbuf_expand().
    """
    return INIT_CWND * (MSS_CLAMP_BYTES + MAX_TCP_HEADER_BYTES + MARGIN_BYTES + SK_BUFF_BYTES)


def smallest_bytes() -> dict[str, int]:
    """The smallest buffers that setsockopt gave from MINIMUM[0] to MINIMUM[1], and in CentOS 6.

    Source: include/net/sock.h SOCK_MIN_SNDBUF and SOCK_MIN_RCVBUF.
    """
    return {"send": 2048, "receive": 2048 + SK_BUFF_BYTES}


def granted_send_bytes(requested_bytes: int) -> int:
    """The send buffer after a request that wmem_max allows: twice the request as an int, which
    overflows, and no less than the minimum. Source: net/core/sock.c sock_setsockopt(), SO_SNDBUF.
    """
    half = 1 << (INT_BITS - 1)
    doubled = (2 * requested_bytes + half) % (2 * half) - half
    return max(doubled, smallest_bytes()["send"])


def printed(size_bytes: float) -> str:
    """A size as iperf 2 prints it: in KByte of 1,024 bytes, with three digits."""
    return f"{size_bytes / KIB:.3g}"
