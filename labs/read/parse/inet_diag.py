"""Rows from the sampler's `samples.bin`: raw inet_diag messages, decoded on reading.

A record is u64le at_ns, u32le length, then one SOCK_DIAG_BY_FAMILY message without its nlmsghdr:
struct inet_diag_msg and netlink attributes. Two of these describe a socket:
`struct tcp_info` of any length, and its memory (skmem).
Source: include/uapi/linux/inet_diag.h; net/ipv4/inet_diag.c inet_sk_diag_fill();
include/uapi/linux/tcp.h, struct tcp_info, from 3.x (104 bytes) over 6.1 (232), 6.12 (248) to 6.18
and later (280). The structure only grows at its end, so a prefix is always valid.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import lru_cache
from socket import AF_INET, AF_INET6, inet_ntop
from typing import Any

from labs.errors import Damaged

_RECORD = struct.Struct("<QI")
_MESSAGE = struct.Struct("<4B2s2s16s16sIQIIIII")
_ATTRIBUTE = struct.Struct("<HH")
_LINUX_AF_INET6 = 10
Shape = tuple[tuple[int, int, int], ...]
"""The attributes of a message: the kind of each, and where its payload begins and ends."""
LATEST_NS = 1 << 63
"""No clock of Linux shows this time, and tables have none of it."""

STATES = (
    "UNKNOWN", "ESTAB", "SYN-SENT", "SYN-RECV", "FIN-WAIT-1", "FIN-WAIT-2", "TIME-WAIT", "UNCONN",
    "CLOSE-WAIT", "LAST-ACK", "LISTEN", "CLOSING", "SYN-RECV",
)  # fmt: skip
TIMERS = ("off", "on", "keepalive", "timewait", "persist")
SHUTDOWNS = ("<->", "-->", "<--", "---")
_CODES = "B" * 8 + "I" * 24 + "Q" * 4 + "I" * 6 + "Q" * 4 + "II" + "QQ" + "I" * 6 + "HH" + "I" * 9
"""The types of struct tcp_info, one letter of `struct` per value."""
_HEAD = (
    "family", "state", "timer", "retransmits", "local_port", "peer_port", "local_address",
    "peer_address", "interface", "cookie", "expires_ms", "recv_q_bytes", "send_q_bytes", "uid",
    "inode",
)  # fmt: skip
"""The fields of struct inet_diag_msg; its cookie is two words, the low first."""


@dataclass(frozen=True)
class TcpInfo:
    """What the kernel reports about one TCP connection; None if the kernel has no such field.

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
_WSCALES_AT = 6


@lru_cache(maxsize=64)
def tcp_info_layout(length: int) -> tuple[struct.Struct, int]:
    """The fields that fit into `length` bytes whole, and how many values are missing after them."""
    sizes = [struct.calcsize("<" + _CODES[:count]) for count in range(len(_CODES) + 1)]
    taken = bisect_right(sizes, length) - 1
    return struct.Struct("<" + _CODES[:taken]), len(_CODES) - taken


def tcp_info(payload: bytes) -> TcpInfo:
    """Decode the payload of INET_DIAG_INFO (or of getsockopt TCP_INFO), little endian."""
    layout, missing = tcp_info_layout(len(payload))
    read = (*layout.unpack_from(payload), *(None,) * missing, len(payload) - layout.size)
    return TcpInfo(*without_bit_fields(read))


def without_bit_fields(read: Sequence[Any]) -> list[Any]:
    """The values of a tcp_info (numbers, or arrays of them), each byte of bit fields as two."""
    wscales, limits = read[_WSCALES_AT : _WSCALES_AT + 2]
    values = list(read)
    values[_WSCALES_AT : _WSCALES_AT + 2] = (
        None if wscales is None else wscales & 15,
        None if wscales is None else wscales >> 4,
        None if limits is None else limits & 1 == 1,
        None if limits is None else limits >> 1 & 3,
    )
    return values


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


@dataclass(frozen=True)
class ShortMemory:
    """INET_DIAG_MEMINFO, the memory block of kernels before 3.3; bytes of true size."""

    rmem_alloc_bytes: int
    wmem_queued_bytes: int
    fwd_alloc_bytes: int
    wmem_alloc_bytes: int


@dataclass(frozen=True)
class Bbr:
    """INET_DIAG_BBRINFO; the gains are factors (the kernel's are shifted left by 8 bits)."""

    bbr_bw_bytes_s: int
    bbr_min_rtt_us: int
    bbr_pacing_gain: float
    bbr_cwnd_gain: float


@dataclass(frozen=True)
class Vegas:
    """INET_DIAG_VEGASINFO, as vegas, veno, nv and illinois fill it."""

    vegas_enabled: int
    vegas_rtt_count: int
    vegas_rtt_us: int
    vegas_min_rtt_us: int


@dataclass(frozen=True)
class Dctcp:
    """INET_DIAG_DCTCPINFO."""

    dctcp_enabled: int
    dctcp_ce_state: int
    dctcp_alpha: int
    dctcp_ab_ecn: int
    dctcp_ab_tot: int


@dataclass(frozen=True)
class Sample:
    """One socket at one moment.

    `timer` is ss's word for the running timer and `expires_ms` when it fires. `extra` holds the
    small attributes by name (tos, tclass, class_id, mark, cgroup_id, ...); `unknown_attributes`
    the numbers of those that this table does not know or whose length it does not expect.
    """

    at_ns: int
    state: str
    recv_q_bytes: int
    send_q_bytes: int
    local_address: str
    local_port: int
    peer_address: str
    peer_port: int
    timer: str
    expires_ms: int
    retransmits: int
    uid: int
    inode: int
    cookie: int
    interface: int
    memory: SocketMemory | None = None
    short_memory: ShortMemory | None = None
    tcp: TcpInfo | None = None
    congestion: str | None = None
    algorithm: Bbr | Vegas | Dctcp | None = None
    shutdown: str | None = None
    extra: dict[str, int] = field(default_factory=dict)
    unknown_attributes: tuple[int, ...] = ()


PLAIN = (
    *(entry.name for entry in fields(Sample) if entry.default is entry.default_factory is MISSING),
    "congestion",
    "shutdown",
)
"""The fields of every sample, in the order of a table's columns."""


def records(data: bytes, name: str = "samples.bin") -> Iterator[tuple[int, bytes]]:
    """The moment (ns, CLOCK_REALTIME) and the raw message of each record.

    Raises Damaged, with the name of the file, when the data ends inside a record.
    """
    at = 0
    end = len(data)
    while at < end:
        if at + _RECORD.size > end:
            raise Damaged(f"{name} ends inside a record, at byte {at}: it was cut")
        at_ns, length = _RECORD.unpack_from(data, at)
        if at_ns >= LATEST_NS:
            raise Damaged(f"{name} has a record of {at_ns} ns, at byte {at}: after 2262")
        at += _RECORD.size
        if at + length > end:
            raise Damaged(f"{name} ends inside a record, at byte {at}: it was cut")
        yield at_ns, data[at : at + length]
        at += length


def samples(data: bytes) -> tuple[Sample, ...]:
    """Every record of a `samples.bin`, in its order; Damaged when one cannot be read."""
    return tuple(sample(at_ns, message) for at_ns, message in records(data))


def readable_samples(data: bytes) -> int:
    """The number of records; Damaged if `samples` cannot read one. That depends only on where the
    attributes of a message are, so one message of each shape is decoded."""
    count, seen = 0, set[Shape]()
    for at_ns, message in records(data):
        shape = shape_of(message)
        if shape not in seen:
            seen.add(shape)
            sample(at_ns, message)
        count += 1
    return count


def sample(at_ns: int, message: bytes) -> Sample:
    """Decode one message (struct inet_diag_msg and attributes); Damaged when it is cut short."""
    parts: dict[str, Any] = {}
    extra: dict[str, int] = {}
    unknown = [
        kind
        for kind, start, end in shape_of(message)
        if not read_attribute(kind, message[start:end], parts, extra)
    ]
    head: dict[str, Any] = dict(zip(_HEAD, _MESSAGE.unpack_from(message), strict=True))
    family = head.pop("family")
    for name in ("local", "peer"):
        head[f"{name}_address"] = address(family, head[f"{name}_address"])
        head[f"{name}_port"] = int.from_bytes(head[f"{name}_port"], "big")
    head["state"], head["timer"] = word(STATES, head["state"]), word(TIMERS, head["timer"])
    return Sample(at_ns, **head, extra=extra, unknown_attributes=tuple(unknown), **parts)


def shape_of(message: bytes) -> Shape:
    """Where the attributes of a message are; Damaged when it is cut short."""
    at, end = _MESSAGE.size, len(message)
    if end < at:
        raise Damaged(f"an inet_diag message of {end} bytes. Allowed: at least {at}")
    attributes = []
    while at + _ATTRIBUTE.size <= end:
        length, kind = _ATTRIBUTE.unpack_from(message, at)
        if length < _ATTRIBUTE.size or at + length > end:
            raise Damaged(f"an inet_diag attribute of {length} bytes, with {end - at} bytes left")
        attributes.append((kind & 0x3FFF, at + _ATTRIBUTE.size, at + length))
        at += (length + 3) & ~3
    return tuple(attributes)


def word(names: tuple[str, ...], number: int) -> str:
    """The name of a state or timer; of an unknown one, its number."""
    return names[number] if number < len(names) else str(number)


@lru_cache(maxsize=256)
def address(family: int, raw: bytes) -> str:
    """The 16 bytes of an address, as text."""
    if family == _LINUX_AF_INET6:
        return inet_ntop(AF_INET6, raw)
    return inet_ntop(AF_INET, raw[:4])


def _of(make: Callable[..., object], form: str) -> Callable[[bytes], object]:
    """A reader of a payload that begins with a structure; None for a shorter payload."""
    layout = struct.Struct(form)
    return lambda payload: (
        make(*layout.unpack_from(payload)) if len(payload) >= layout.size else None
    )


def _memory(payload: bytes) -> SocketMemory | None:
    count = min(len(payload) // 4, 9)
    return SocketMemory(*struct.unpack_from(f"<{count}I", payload)) if count >= 7 else None


def _bbr(bandwidth: int, min_rtt_us: int, pacing_gain: int, cwnd_gain: int) -> Bbr:
    return Bbr(bandwidth, min_rtt_us, pacing_gain / 256, cwnd_gain / 256)


MEMORY, TCP_INFO = 7, 2
_READERS: dict[int, tuple[str, Callable[[bytes], object]]] = {
    1: ("short_memory", _of(ShortMemory, "<4I")),
    TCP_INFO: ("tcp", tcp_info),
    3: ("algorithm", _of(Vegas, "<4I")),
    4: ("congestion", lambda payload: payload.rstrip(b"\0").decode("utf-8", "replace")),
    MEMORY: ("memory", _memory),
    8: ("shutdown", lambda payload: SHUTDOWNS[payload[0] & 3] if payload else None),
    9: ("algorithm", _of(Dctcp, "<HHIII")),
    16: ("algorithm", _of(_bbr, "<QIII")),
}
_EXTRA = {
    5: ("tos", 1),
    6: ("tclass", 1),
    10: ("protocol", 1),
    11: ("v6only", 1),
    15: ("mark", 4),
    17: ("class_id", 4),
    21: ("cgroup_id", 8),
    22: ("sockopt_bits", 2),
}
PADDING = 14


def read_attribute(kind: int, payload: bytes, parts: dict[str, Any], extra: dict[str, int]) -> bool:
    """Keep one attribute; False when its number or its length is not one of the table's."""
    if kind in _READERS:
        name, reader = _READERS[kind]
        value = reader(payload)
        if value is not None:
            parts[name] = value
        return value is not None
    if kind in _EXTRA:
        name, length = _EXTRA[kind]
        if len(payload) == length:
            extra[name] = int.from_bytes(payload, "little")
        return len(payload) == length
    return kind == PADDING
