"""Rows from the sampler's `samples.bin`: raw inet_diag messages, decoded on reading.

A record is u64le at_ns, u32le length, then one SOCK_DIAG_BY_FAMILY message without its nlmsghdr:
struct inet_diag_msg and netlink attributes.
Source: include/uapi/linux/inet_diag.h; net/ipv4/inet_diag.c inet_sk_diag_fill().
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from socket import AF_INET, AF_INET6, inet_ntop
from typing import Any

from labs.errors import Damaged
from labs.read.parse.tcp_info import FIELD_NAMES, SocketMemory, TcpInfo, tcp_info

_RECORD = struct.Struct("<QI")
_MESSAGE = struct.Struct("<4B2s2s16s16sIIIIIIII")
_ATTRIBUTE = struct.Struct("<HH")
_LINUX_AF_INET6 = 10

STATES = (
    "UNKNOWN",
    "ESTAB",
    "SYN-SENT",
    "SYN-RECV",
    "FIN-WAIT-1",
    "FIN-WAIT-2",
    "TIME-WAIT",
    "UNCONN",
    "CLOSE-WAIT",
    "LAST-ACK",
    "LISTEN",
    "CLOSING",
    "SYN-RECV",
)
TIMERS = ("off", "on", "keepalive", "timewait", "persist")
SHUTDOWNS = ("<->", "-->", "<--", "---")


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

    def flat(self) -> dict[str, int | float | str | None]:
        """The row as one flat mapping, for a table; the fields of TCP_INFO by their own names."""
        row: dict[str, int | float | str | None] = {name: getattr(self, name) for name in _PLAIN}
        if self.memory is not None:
            row.update(vars(self.memory))
        elif self.short_memory is not None:
            row.update(vars(self.short_memory))
        if self.tcp is not None:
            values = vars(self.tcp)
            row.update((name, values[name]) for name in FIELD_NAMES)
        if self.algorithm is not None:
            row.update(asdict(self.algorithm))
        row.update(self.extra)
        row["unknown_attributes"] = " ".join(map(str, self.unknown_attributes))
        return row


_PLAIN = (
    "at_ns",
    "state",
    "recv_q_bytes",
    "send_q_bytes",
    "local_address",
    "local_port",
    "peer_address",
    "peer_port",
    "timer",
    "expires_ms",
    "retransmits",
    "uid",
    "inode",
    "cookie",
    "interface",
    "congestion",
    "shutdown",
)


def records(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The moment (ns, CLOCK_REALTIME) and the raw message of each record.

    Raises Damaged when the data ends inside a record.
    """
    at = 0
    end = len(data)
    while at < end:
        if at + _RECORD.size > end:
            raise Damaged(f"samples.bin ends inside a record, at byte {at}: it was cut")
        at_ns, length = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        if at + length > end:
            raise Damaged(f"samples.bin ends inside a record, at byte {at}: it was cut")
        yield at_ns, data[at : at + length]
        at += length


def samples(data: bytes) -> tuple[Sample, ...]:
    """Every record of a `samples.bin`, in its order; Damaged when one cannot be read."""
    return tuple(sample(at_ns, message) for at_ns, message in records(data))


def sample(at_ns: int, message: bytes) -> Sample:
    """Decode one message (struct inet_diag_msg and attributes); Damaged when it is cut short."""
    if len(message) < _MESSAGE.size:
        raise Damaged(f"an inet_diag message of {len(message)} bytes; it has at least 72")
    (
        family,
        state,
        timer,
        retransmits,
        local_port,
        peer_port,
        local,
        peer,
        interface,
        cookie_low,
        cookie_high,
        expires_ms,
        recv_q,
        send_q,
        uid,
        inode,
    ) = _MESSAGE.unpack_from(message)
    parts: dict[str, Any] = {}
    extra: dict[str, int] = {}
    unknown: list[int] = []
    for kind, payload in _attributes(message):
        if not _read_attribute(kind, payload, parts, extra):
            unknown.append(kind)
    return Sample(
        at_ns=at_ns,
        state=_named(STATES, state),
        recv_q_bytes=recv_q,
        send_q_bytes=send_q,
        local_address=_address(family, local),
        local_port=int.from_bytes(local_port, "big"),
        peer_address=_address(family, peer),
        peer_port=int.from_bytes(peer_port, "big"),
        timer=_named(TIMERS, timer),
        expires_ms=expires_ms,
        retransmits=retransmits,
        uid=uid,
        inode=inode,
        cookie=cookie_high << 32 | cookie_low,
        interface=interface,
        extra=extra,
        unknown_attributes=tuple(unknown),
        **parts,
    )


def _attributes(message: bytes) -> Iterator[tuple[int, bytes]]:
    at = _MESSAGE.size
    end = len(message)
    while at + _ATTRIBUTE.size <= end:
        length, kind = _ATTRIBUTE.unpack_from(message, at)
        if length < _ATTRIBUTE.size or at + length > end:
            raise Damaged(f"an inet_diag attribute of {length} bytes where {end - at} are left")
        yield kind & 0x3FFF, message[at + _ATTRIBUTE.size : at + length]
        at += (length + 3) & ~3


def _named(names: tuple[str, ...], number: int) -> str:
    return names[number] if number < len(names) else str(number)


@lru_cache(maxsize=256)
def _address(family: int, raw: bytes) -> str:
    if family == _LINUX_AF_INET6:
        return inet_ntop(AF_INET6, raw)
    return inet_ntop(AF_INET, raw[:4])


def _words(payload: bytes, low: int, high: int) -> tuple[int, ...] | None:
    """The payload as u32 words when there are `low` to `high` of them (more: the first `high`)."""
    count = len(payload) // 4
    if count < low:
        return None
    return struct.unpack_from(f"<{min(count, high)}I", payload)


def _memory(payload: bytes) -> SocketMemory | None:
    words = _words(payload, 7, 9)
    return None if words is None else SocketMemory(*words)


def _short_memory(payload: bytes) -> ShortMemory | None:
    words = _words(payload, 4, 4)
    return None if words is None else ShortMemory(*words)


def _bbr(payload: bytes) -> Bbr | None:
    words = _words(payload, 5, 5)
    if words is None:
        return None
    low, high, min_rtt_us, pacing_gain, cwnd_gain = words
    return Bbr(high << 32 | low, min_rtt_us, pacing_gain / 256, cwnd_gain / 256)


def _vegas(payload: bytes) -> Vegas | None:
    words = _words(payload, 4, 4)
    return None if words is None else Vegas(*words)


def _dctcp(payload: bytes) -> Dctcp | None:
    if len(payload) < 16:
        return None
    return Dctcp(*struct.unpack_from("<HHIII", payload))


def _congestion(payload: bytes) -> str | None:
    return payload.rstrip(b"\0").decode("utf-8", "replace")


def _shutdown(payload: bytes) -> str | None:
    return SHUTDOWNS[payload[0] & 3] if payload else None


_READERS: dict[int, tuple[str, Callable[[bytes], object]]] = {
    1: ("short_memory", _short_memory),
    2: ("tcp", tcp_info),
    3: ("algorithm", _vegas),
    4: ("congestion", _congestion),
    7: ("memory", _memory),
    8: ("shutdown", _shutdown),
    9: ("algorithm", _dctcp),
    16: ("algorithm", _bbr),
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
_PAD = 14


def _read_attribute(
    kind: int, payload: bytes, parts: dict[str, Any], extra: dict[str, int]
) -> bool:
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
    return kind == _PAD
