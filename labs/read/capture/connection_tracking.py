"""Connections: which one a segment belongs to, its client and server, and their table.

A connection is a pair of addresses and ports. A SYN with another sequence number than the first one
begins a new connection on the same pair, as Wireshark's tcp.stream does (packet-tcp.c,
dissect_tcp). The client is the end that sent a SYN or received a SYN-ACK. If the capture has
neither, the end with the lower port is taken for the server; if the ports are equal, the first
sender for the client.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Any

import numpy as np

from labs.errors import BadInput
from labs.read.capture.headers import End, Packet
from labs.read.capture.segment_table import ACK, SYN
from labs.read.native.compiled import Int32s, Record, Records, native, record, scrambled

if TYPE_CHECKING:
    import pandas as pd


@record
class Side(Record):
    """What one end of a connection sent: `base` is the number that relative ones are counted from,
    `next` and `acked` the highest relative number after a segment and acknowledged; `scale` is as
    in Wireshark, `mss` -1 if unknown."""

    base_set: int
    base: int
    next: int
    acked: int
    scale: int
    scale_offered: int
    mss: int
    sack_permitted: int
    timestamps: int
    bytes: int
    segments: int
    retransmissions: int
    syn_seen: int
    fin_seen: int


@record
class Connection(Record):
    """Both ends, what each sent, times, how it began and ended; `unreachable` is 1 + the code of
    the ICMP error that answered the client, 0 without any. `too_big_mtu` is the smallest MTU that
    an ICMP error named, 1 if it named none, 0 without any; `too_big_of` the direction whose packet
    was too large."""

    client: End
    server: End
    version: int
    by_client: Side
    by_server: Side
    first_ns: int
    last_ns: int
    syn_ns: int
    handshake_ns: int
    known_by: int
    ended: int
    unreachable: int
    too_big_mtu: int
    too_big_frame: int
    too_big_of: int


BY_SYN, BY_SYN_ACK, BY_PORTS = 0, 1, 2
OPEN, BY_FIN, BY_RESET = 0, 1, 2
SCALE_UNKNOWN, NO_SCALING = -1, -2
WORD = 0xFFFFFFFF
HALF = 1 << 31


def mixed(end: End) -> int:
    """A hash of an address and a port."""
    return scrambled(scrambled(end.high) ^ end.low ^ end.port << 32)


def same(end: End, other: End) -> bool:
    return end.low == other.low and end.port == other.port and end.high == other.high


def direction_in(connection: Connection, source: End, target: End, version: int) -> int:
    """0 from the client of the connection, 1 from its server, -1 for another pair."""
    if connection.version != version:
        return -1
    if same(connection.client, source) and same(connection.server, target):
        return 0
    return 1 if same(connection.client, target) and same(connection.server, source) else -1


def slot_of(
    table: Records[Connection], slots: Int32s, source: End, target: End, version: int
) -> int:
    """The slot of a pair of ends: that of its last connection, or a free one."""
    mask = len(slots) - 1
    slot = (mixed(source) + mixed(target)) & mask
    while slots[slot] != 0:
        if direction_in(table[slots[slot] - 1], source, target, version) >= 0:
            break
        slot = (slot + 1) & mask
    return slot


@native
def enter_all(count: int, table: Records[Connection], slots: Int32s) -> None:
    """Enter the first `count` connections into empty slots; of each pair the last one remains."""
    for number in range(count):
        it = table[number]
        slots[slot_of(table, slots, it.client, it.server, it.version)] = number + 1


def begin(connection: Connection, packet: Packet, flags: int, time_ns: int) -> int:
    """Begin a connection with this packet; return the direction of the packet."""
    known_by, direction = BY_PORTS, 0
    if flags & SYN:
        known_by = BY_SYN_ACK if flags & ACK else BY_SYN
        direction = 1 if flags & ACK else 0
    elif packet.source.port < packet.target.port:
        direction = 1
    copy_end(packet.source, connection.server if direction else connection.client)
    copy_end(packet.target, connection.client if direction else connection.server)
    connection.version, connection.known_by = packet.version, known_by
    connection.first_ns, connection.handshake_ns = time_ns, -1
    connection.by_client.scale = connection.by_server.scale = SCALE_UNKNOWN
    connection.by_client.mss = connection.by_server.mss = -1
    connection.by_client.scale_offered = connection.by_server.scale_offered = -1
    return direction


def copy_end(end: End, to: End) -> None:
    to.high, to.low, to.port = end.high, end.low, end.port


def unwrapped(relative: int, reached: int) -> int:
    """The number congruent to `relative` modulo 2**32 that is nearest to `reached`."""
    distance = (relative - reached) & WORD
    if distance >= HALF:
        distance -= 1 << 32
    return reached + distance


_KNOWN_BY_NAMES = {BY_SYN: "syn", BY_SYN_ACK: "syn-ack", BY_PORTS: "ports"}
_ENDED_NAMES = {OPEN: "open", BY_FIN: "fin", BY_RESET: "reset"}
OF_SYN = ("mss", "wscale", "sack_permitted", "timestamps")
OF_END = (*OF_SYN, "segments", "bytes", "retransmissions")
"""The columns of each end; the first ones are known from its SYN alone."""
ENDS = ("client", "server")


def address(version: int, high: int, low: int) -> str:
    """An address of two signed halves as text."""
    if version == 4:
        return str(IPv4Address(low))
    half = (1 << 64) - 1
    return str(IPv6Address((high & half) << 64 | low & half))


def connection_columns(connections: np.ndarray[Any, Any]) -> dict[str, Any]:
    """The columns of the table of connections by name, from a reader's `connections`."""
    versions = (connections["version"] & 0xFF).tolist()  # the rest tells tunnels apart
    made: dict[str, Any] = {"connection": np.arange(len(connections), dtype=np.int32)}
    for end in ENDS:
        high, low = connections[end]["high"].tolist(), connections[end]["low"].tolist()
        made[end] = list(map(address, versions, high, low))
        made[f"{end}_port"] = connections[end]["port"].astype(np.int32)
    made["client_known_by"] = [_KNOWN_BY_NAMES[word] for word in connections["known_by"].tolist()]
    made["first_ns"], made["last_ns"] = (
        connections["first_ns"].copy(),
        connections["last_ns"].copy(),
    )
    made["handshake_rtt_ns"] = connections["handshake_ns"].copy()
    made["ended"] = [_ENDED_NAMES[word] for word in connections["ended"].tolist()]
    for end in ENDS:
        side = connections[f"by_{end}"]
        for name in OF_END:
            values = side["scale_offered" if name == "wscale" else name]
            if name in OF_SYN:
                seen = side["syn_seen"] != 0
                values = np.where(seen, np.maximum(values, -1), -1).astype(np.int32)
            made[f"{end}_{name}"] = values.copy()
    return made


def connection_rows(connections: np.ndarray[Any, Any]) -> list[dict[str, Any]]:
    """The connections as rows of plain values; None for what is unknown."""
    made = {
        name: list(values) if isinstance(values, list) else values.tolist()
        for name, values in connection_columns(connections).items()
    }
    return [
        {name: None if value == -1 else value for name, value in zip(made, row, strict=True)}
        for row in zip(*made.values(), strict=True)
    ]


def number_of(rows: list[dict[str, Any]], word: int | str) -> int:
    """The number of the connection that a word names: its number, or both its ends as A:P-B:P, in
    either order. BadInput for one that is not among `rows`."""
    numbers = f"connections 0 to {len(rows) - 1}" if rows else "no connections"
    text = str(word)
    if text.isdecimal():
        if int(text) < len(rows):
            return int(text)
        raise BadInput(f"there is no connection {text}. The capture has {numbers}")
    ends = [end.strip() for end in text.split("-")]
    for row in rows:
        row_ends = [
            f"[{row[end]}]:{row[f'{end}_port']}"
            if ":" in row[end]
            else f"{row[end]}:{row[f'{end}_port']}"
            for end in ENDS
        ]
        if sorted(row_ends) == sorted(ends):
            return int(row["connection"])
    raise BadInput(
        f"connection {text} is not in the capture, which has {numbers}. Allowed: a number, or both "
        "ends such as 10.0.0.1:40000-10.0.0.2:80; labs capture connections FILE lists them"
    )


def connection_table(connections: np.ndarray[Any, Any]) -> pd.DataFrame:
    """One row per connection, as `labs.capture.connections` returns them."""
    import pandas as pd  # noqa: PLC0415  slow to load

    return pd.DataFrame(connection_columns(connections))
