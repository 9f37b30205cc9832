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
from labs.read.capture.headers import (
    PACKET_WORDS,
    SOURCE_HIGH,
    SOURCE_LOW,
    TARGET_HIGH,
    TARGET_LOW,
    VERSION,
)
from labs.read.capture.segment_table import ACK, SYN
from labs.read.native.compiled import Int32s, Int64s, native, scrambled

if TYPE_CHECKING:
    import pandas as pd


SOURCE_PORT, TARGET_PORT = PACKET_WORDS, PACKET_WORDS + 1  # beside headers' words of a packet
FOLLOWED_WORDS = PACKET_WORDS + 2

# A connection, in an array of int64: its two ends (the client first), times, how it began and
# ended, then the words of each direction.
CLIENT_HIGH, CLIENT_LOW, CLIENT_PORT, SERVER_HIGH, SERVER_LOW, SERVER_PORT = range(6)
IP_VERSION, FIRST_NS, LAST_NS, SYN_NS, HANDSHAKE_NS, KNOWN_BY, ENDED = range(6, 13)
DIRECTIONS = 13
# The words of a direction. BASE is the number that relative ones are counted from, NEXT and ACKED
# the highest relative number after a segment and acknowledged; SCALE as in Wireshark.
(
    BASE_SET,
    BASE,
    NEXT,
    ACKED,
    SCALE,
    MSS,
    SACK_PERMITTED,
    TIMESTAMPS,
    BYTES,
    SENT,
    RETRANSMITTED,
    SYN_SEEN,
    FIN_SEEN,
) = range(13)
DIRECTION_WORDS = 13
# 1 + the code of the ICMP error that answered the client; 0 without any
UNREACHABLE = DIRECTIONS + 2 * DIRECTION_WORDS
CONNECTION_WORDS = UNREACHABLE + 1  # 40: whole cache lines

BY_SYN, BY_SYN_ACK, BY_PORTS = 0, 1, 2
OPEN, BY_FIN, BY_RESET = 0, 1, 2
SCALE_UNKNOWN, NO_SCALING = -1, -2
WORD = 0xFFFFFFFF
HALF = 1 << 31


def mixed(high: int, low: int, port: int) -> int:
    """A hash of an address and a port."""
    return scrambled(scrambled(high) ^ low ^ port << 32)


def direction_in(
    at: int,
    table: Int64s,
    source_high: int,
    source_low: int,
    source_port: int,
    target_high: int,
    target_low: int,
    target_port: int,
    version: int,
) -> int:
    """0 from the client of the connection at `at`, 1 from its server, -1 for another pair."""
    if table[at + IP_VERSION] != version:
        return -1
    if (
        table[at + CLIENT_LOW] == source_low
        and table[at + CLIENT_PORT] == source_port
        and table[at + SERVER_LOW] == target_low
        and table[at + SERVER_PORT] == target_port
        and table[at + CLIENT_HIGH] == source_high
        and table[at + SERVER_HIGH] == target_high
    ):
        return 0
    if (
        table[at + CLIENT_LOW] == target_low
        and table[at + CLIENT_PORT] == target_port
        and table[at + SERVER_LOW] == source_low
        and table[at + SERVER_PORT] == source_port
        and table[at + CLIENT_HIGH] == target_high
        and table[at + SERVER_HIGH] == source_high
    ):
        return 1
    return -1


def slot_of(
    table: Int64s,
    slots: Int32s,
    source_high: int,
    source_low: int,
    source_port: int,
    target_high: int,
    target_low: int,
    target_port: int,
    version: int,
) -> int:
    """The slot of a pair of ends: that of its last connection, or a free one."""
    mask = len(slots) - 1
    slot = (
        mixed(source_high, source_low, source_port) + mixed(target_high, target_low, target_port)
    ) & mask
    while slots[slot] != 0:
        at = (slots[slot] - 1) * CONNECTION_WORDS
        if (
            direction_in(
                at,
                table,
                source_high,
                source_low,
                source_port,
                target_high,
                target_low,
                target_port,
                version,
            )
            >= 0
        ):
            break
        slot = (slot + 1) & mask
    return slot


@native
def enter_all(count: int, table: Int64s, slots: Int32s) -> None:
    """Enter the first `count` connections into empty slots; of each pair the last one remains."""
    for connection in range(count):
        at = connection * CONNECTION_WORDS
        slot = slot_of(
            table,
            slots,
            table[at + CLIENT_HIGH],
            table[at + CLIENT_LOW],
            table[at + CLIENT_PORT],
            table[at + SERVER_HIGH],
            table[at + SERVER_LOW],
            table[at + SERVER_PORT],
            table[at + IP_VERSION],
        )
        slots[slot] = connection + 1


def begin(connection: int, table: Int64s, packet: Int64s, flags: int, time_ns: int) -> int:
    """Add a connection that begins with this packet; return the direction of the packet."""
    at = connection * CONNECTION_WORDS
    known_by, direction = BY_PORTS, 0
    if flags & SYN:
        known_by = BY_SYN_ACK if flags & ACK else BY_SYN
        direction = 1 if flags & ACK else 0
    elif packet[SOURCE_PORT] < packet[TARGET_PORT]:
        direction = 1
    client = CLIENT_HIGH if direction == 0 else SERVER_HIGH
    server = SERVER_HIGH if direction == 0 else CLIENT_HIGH
    table[at + client] = packet[SOURCE_HIGH]
    table[at + client + 1] = packet[SOURCE_LOW]
    table[at + client + 2] = packet[SOURCE_PORT]
    table[at + server] = packet[TARGET_HIGH]
    table[at + server + 1] = packet[TARGET_LOW]
    table[at + server + 2] = packet[TARGET_PORT]
    table[at + IP_VERSION] = packet[VERSION]
    table[at + FIRST_NS] = time_ns
    table[at + HANDSHAKE_NS] = -1
    table[at + KNOWN_BY] = known_by
    for number in range(2):
        side = at + DIRECTIONS + number * DIRECTION_WORDS
        table[side + SCALE] = SCALE_UNKNOWN
        table[side + MSS] = -1
    return direction


def unwrapped(relative: int, reached: int) -> int:
    """The number congruent to `relative` modulo 2**32 that is nearest to `reached`."""
    distance = (relative - reached) & WORD
    if distance >= HALF:
        distance -= 1 << 32
    return reached + distance


_KNOWN_BY_NAMES = {BY_SYN: "syn", BY_SYN_ACK: "syn-ack", BY_PORTS: "ports"}
_ENDED_NAMES = {OPEN: "open", BY_FIN: "fin", BY_RESET: "reset"}
# The columns of each end: name, word of its direction, whether it is known only from its SYN.
_OF_END: tuple[tuple[str, int, bool], ...] = (
    ("mss", MSS, True),
    ("wscale", SCALE, True),
    ("sack_permitted", SACK_PERMITTED, True),
    ("timestamps", TIMESTAMPS, True),
    ("segments", SENT, False),
    ("bytes", BYTES, False),
    ("retransmissions", RETRANSMITTED, False),
)
ENDS = ("client", "server")


def address(version: int, high: int, low: int) -> str:
    """An address of two signed halves as text."""
    if version == 4:
        return str(IPv4Address(low))
    half = (1 << 64) - 1
    return str(IPv6Address((high & half) << 64 | low & half))


def connection_columns(connections: np.ndarray[Any, Any]) -> dict[str, Any]:
    """The columns of the table of connections by name, from a reader's `connections`."""
    versions = (connections[:, IP_VERSION] & 0xFF).tolist()  # the rest tells tunnels apart
    made: dict[str, Any] = {"connection": np.arange(len(connections), dtype=np.int32)}
    for end, first in zip(ENDS, (CLIENT_HIGH, SERVER_HIGH), strict=True):
        halves = connections[:, first : first + 2].tolist()
        made[end] = [
            address(version, high, low)
            for version, (high, low) in zip(versions, halves, strict=True)
        ]
        made[f"{end}_port"] = connections[:, first + 2].astype(np.int32)
    made["client_known_by"] = [_KNOWN_BY_NAMES[word] for word in connections[:, KNOWN_BY].tolist()]
    made["first_ns"] = connections[:, FIRST_NS].copy()
    made["last_ns"] = connections[:, LAST_NS].copy()
    made["handshake_rtt_ns"] = connections[:, HANDSHAKE_NS].copy()
    made["ended"] = [_ENDED_NAMES[word] for word in connections[:, ENDED].tolist()]
    for number, end in enumerate(ENDS):
        side = DIRECTIONS + number * DIRECTION_WORDS
        seen = connections[:, side + SYN_SEEN] != 0
        for name, word, from_syn in _OF_END:
            values = connections[:, side + word]
            if from_syn:
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
