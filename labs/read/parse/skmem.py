"""The memory block of a socket, as `ss` prints it and as inet_diag carries it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SocketMemory:
    """What the kernel accounts to one socket, in bytes of true size (payload and overhead).

    In the order of `skmem:(r,rb,t,tb,f,w,o,bl,d)`. `wmem_alloc_bytes` was handed below TCP and is
    not yet freed; `wmem_queued_bytes` is everything between send() and its acknowledgement.
    `backlog_bytes` and `drops` are None where kernel or tool are too old for them.
    Source: net/core/sock.c sk_get_meminfo(); include/uapi/linux/sock_diag.h.
    """

    rmem_alloc_bytes: int
    rcvbuf_bytes: int
    wmem_alloc_bytes: int
    sndbuf_bytes: int
    fwd_alloc_bytes: int
    wmem_queued_bytes: int
    optmem_bytes: int
    backlog_bytes: int | None = None
    drops: int | None = None
