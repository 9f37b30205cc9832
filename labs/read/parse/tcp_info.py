"""What the kernel says of a socket: `struct tcp_info` of any length, and its memory (skmem).

Source: include/uapi/linux/tcp.h, struct tcp_info, from 3.x (104 bytes) over 6.1 (232), 6.12 (248)
to 6.18 and later (280). The structure only grows at its end, so a prefix is always valid.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

_CODES = "8B" + "24I" + "4Q" + "6I" + "4Q" + "2I" + "2Q" + "6I" + "2H" + "9I"


@dataclass(frozen=True)
class TcpInfo:
    """What the kernel tells of one TCP connection; None where the kernel has no such field.

    Times are microseconds or milliseconds as the names say, rates bytes per second, windows and
    sizes bytes, queues of the sender segments. `options` are the bits of TCPI_OPT_*;
    `accecn_bits` is the last word of 6.18 and later, whose inner layout moved between releases.
    `beyond_bytes` counts what a kernel newer than this table appended.
    """

    tcp_state: int | None
    ca_state: int | None
    retransmits: int | None
    probes: int | None
    backoff: int | None
    options: int | None
    snd_wscale: int | None
    rcv_wscale: int | None
    app_limited: bool | None
    fastopen_client_fail: int | None
    rto_us: int | None
    ato_us: int | None
    snd_mss_bytes: int | None
    rcv_mss_bytes: int | None
    unacked_segments: int | None
    sacked_segments: int | None
    lost_segments: int | None
    retrans_segments: int | None
    fackets_segments: int | None
    last_data_sent_ms: int | None
    last_ack_sent_ms: int | None
    last_data_recv_ms: int | None
    last_ack_recv_ms: int | None
    pmtu_bytes: int | None
    rcv_ssthresh_bytes: int | None
    rtt_us: int | None
    rttvar_us: int | None
    snd_ssthresh_segments: int | None
    snd_cwnd_segments: int | None
    advmss_bytes: int | None
    reordering_segments: int | None
    rcv_rtt_us: int | None
    rcv_space_bytes: int | None
    total_retrans_segments: int | None
    pacing_rate_bytes_s: int | None
    max_pacing_rate_bytes_s: int | None
    bytes_acked: int | None
    bytes_received: int | None
    segs_out: int | None
    segs_in: int | None
    notsent_bytes: int | None
    min_rtt_us: int | None
    data_segs_in: int | None
    data_segs_out: int | None
    delivery_rate_bytes_s: int | None
    busy_time_us: int | None
    rwnd_limited_us: int | None
    sndbuf_limited_us: int | None
    delivered_segments: int | None
    delivered_ce_segments: int | None
    bytes_sent: int | None
    bytes_retrans: int | None
    dsack_dups: int | None
    reord_seen: int | None
    rcv_ooopack: int | None
    snd_wnd_bytes: int | None
    rcv_wnd_bytes: int | None
    rehash: int | None
    total_rto: int | None
    total_rto_recoveries: int | None
    total_rto_time_ms: int | None
    received_ce_segments: int | None
    delivered_e1_bytes: int | None
    delivered_e0_bytes: int | None
    delivered_ce_bytes: int | None
    received_e1_bytes: int | None
    received_e0_bytes: int | None
    received_ce_bytes: int | None
    accecn_bits: int | None
    beyond_bytes: int = 0


FIELD_NAMES = tuple(field.name for field in fields(TcpInfo))
_HEAD = 6


def _singles(codes: str) -> tuple[str, ...]:
    """The codes one by one: `2I1Q` is I, I, Q."""
    found: list[str] = []
    count = ""
    for letter in codes:
        if letter.isdigit():
            count += letter
        else:
            found += [letter] * int(count)
            count = ""
    return tuple(found)


@lru_cache(maxsize=64)
def _layout(length: int) -> tuple[struct.Struct, int]:
    """The fields that fit into `length` bytes whole, and how many values are missing after them."""
    singles = _singles(_CODES)
    taken = len(singles)
    while taken and struct.calcsize("<" + "".join(singles[:taken])) > length:
        taken -= 1
    return struct.Struct("<" + "".join(singles[:taken])), len(singles) - taken


def tcp_info(payload: bytes) -> TcpInfo:
    """Decode the payload of INET_DIAG_INFO (or of getsockopt TCP_INFO), little endian."""
    layout, missing = _layout(len(payload))
    read: list[Any] = [*layout.unpack_from(payload), *(None,) * missing]
    wscales, limits = read[_HEAD : _HEAD + 2]
    read[_HEAD : _HEAD + 2] = (
        None if wscales is None else wscales & 15,
        None if wscales is None else wscales >> 4,
        None if limits is None else bool(limits & 1),
        None if limits is None else limits >> 1 & 3,
    )
    read.append(len(payload) - layout.size)
    return TcpInfo(*read)


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
