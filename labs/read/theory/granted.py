"""What setsockopt makes of a request for a socket buffer."""

from __future__ import annotations

SMALLEST_BYTES = {"receive": 2304, "send": 4608}
"""SOCK_MIN_RCVBUF and SOCK_MIN_SNDBUF on x86-64: a packet's smallest true size, once and twice."""


def granted_bytes(requested_bytes: int, core_max_bytes: int, socket: str) -> int:
    """The size that getsockopt says afterwards: twice the request, which is capped first.

    `core_max_bytes` is net.core.rmem_max or wmem_max, `socket` "receive" or "send".
    Source: net/core/sock.c sk_setsockopt(), cases SO_RCVBUF and SO_SNDBUF;
    __sock_set_rcvbuf(); include/net/sock.h SOCK_MIN_RCVBUF, SOCK_MIN_SNDBUF.
    """
    return max(2 * min(requested_bytes, core_max_bytes), SMALLEST_BYTES[socket])
