"""Connections: which one a segment belongs to, who opened it, and what has been seen of it.

A connection is a pair of addresses and ports. A SYN whose number is another than the first begins
a new one on the same pair, as Wireshark's tcp.stream does (packet-tcp.c, dissect_tcp). Who opened
it is said by a SYN or a SYN-ACK; where the capture has neither, the end with the lower port is
taken for the one that listens, and of equal ports the first sender for the opener.
"""

from __future__ import annotations

from typing import Any

from labs.read.capture.compiled import compiled
from labs.read.capture.headers import (
    PACKET_WORDS,
    SOURCE_HIGH,
    SOURCE_LOW,
    TARGET_HIGH,
    TARGET_LOW,
    VERSION,
)
from labs.read.capture.integers import POSITIVE

SOURCE_PORT, TARGET_PORT = PACKET_WORDS, PACKET_WORDS + 1  # beside headers' words of a packet
FOLLOWED_WORDS = PACKET_WORDS + 2

# A connection, in an array of int64: its two ends (the opener first), times, how it began and
# ended, then the words of each direction.
OPENER_HIGH, OPENER_LOW, OPENER_PORT, LISTENER_HIGH, LISTENER_LOW, LISTENER_PORT = range(6)
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
CONNECTION_WORDS = DIRECTIONS + 2 * DIRECTION_WORDS + 1  # 40: whole cache lines

BY_SYN, BY_SYN_ACK, BY_PORTS = 0, 1, 2
OPEN, BY_FIN, BY_RESET = 0, 1, 2
SCALE_UNKNOWN, NO_SCALING = -1, -2
FIN, SYN, RST, ACK = 1, 2, 4, 16
WORD = 0xFFFFFFFF
HALF = 1 << 31
MASK_63 = (1 << 63) - 1
_MIX_1, _MIX_2, _MIX_3 = 0x1E3779B97F4A7C15, 0x3F58476D1CE4E5B9, 0x14D049BB133111EB


@compiled
def mixed(high: int, low: int, port: int) -> int:
    """A number of 63 bits out of an address and a port."""
    value = (high * _MIX_1 + (low ^ port << 32) * _MIX_2) & MASK_63
    value = ((value ^ value >> 29) * _MIX_3) & MASK_63
    return value ^ value >> 32


@compiled
def direction_in(
    at: int,
    table: Any,
    source_high: int,
    source_low: int,
    source_port: int,
    target_high: int,
    target_low: int,
    target_port: int,
    version: int,
) -> int:
    """0 from the opener of the connection at `at`, 1 to it, -1 another pair."""
    if table[at + IP_VERSION] != version:
        return -1
    if (
        table[at + OPENER_LOW] == source_low
        and table[at + OPENER_PORT] == source_port
        and table[at + LISTENER_LOW] == target_low
        and table[at + LISTENER_PORT] == target_port
        and table[at + OPENER_HIGH] == source_high
        and table[at + LISTENER_HIGH] == target_high
    ):
        return 0
    if (
        table[at + OPENER_LOW] == target_low
        and table[at + OPENER_PORT] == target_port
        and table[at + LISTENER_LOW] == source_low
        and table[at + LISTENER_PORT] == source_port
        and table[at + OPENER_HIGH] == target_high
        and table[at + LISTENER_HIGH] == source_high
    ):
        return 1
    return -1


@compiled
def slot_of(
    table: Any,
    slots: Any,
    source_high: int,
    source_low: int,
    source_port: int,
    target_high: int,
    target_low: int,
    target_port: int,
    version: int,
) -> int:
    """The slot of a pair of ends: where its last connection stands, or the free one for it."""
    mask = (len(slots) - 1) & POSITIVE
    slot = (
        mixed(source_high, source_low, source_port) + mixed(target_high, target_low, target_port)
    ) & mask
    while slots[slot] != 0:
        at = ((slots[slot] - 1) & POSITIVE) * CONNECTION_WORDS
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


@compiled
def enter_all(count: int, table: Any, slots: Any) -> None:
    """Enter the first `count` connections into empty slots; of one pair the last stays."""
    for connection in range(count):
        at = connection * CONNECTION_WORDS
        slot = slot_of(
            table,
            slots,
            table[at + OPENER_HIGH],
            table[at + OPENER_LOW],
            table[at + OPENER_PORT],
            table[at + LISTENER_HIGH],
            table[at + LISTENER_LOW],
            table[at + LISTENER_PORT],
            table[at + IP_VERSION],
        )
        slots[slot] = connection + 1


@compiled
def begin(connection: int, table: Any, packet: Any, flags: int, time_ns: int) -> int:
    """Enter a connection that begins with this packet; the direction of the packet in it."""
    at = connection * CONNECTION_WORDS
    known_by, direction = BY_PORTS, 0
    if flags & SYN:
        known_by = BY_SYN_ACK if flags & ACK else BY_SYN
        direction = 1 if flags & ACK else 0
    elif packet[SOURCE_PORT] < packet[TARGET_PORT]:
        direction = 1
    opener = OPENER_HIGH if direction == 0 else LISTENER_HIGH
    listener = LISTENER_HIGH if direction == 0 else OPENER_HIGH
    table[at + opener] = packet[SOURCE_HIGH]
    table[at + opener + 1] = packet[SOURCE_LOW]
    table[at + opener + 2] = packet[SOURCE_PORT]
    table[at + listener] = packet[TARGET_HIGH]
    table[at + listener + 1] = packet[TARGET_LOW]
    table[at + listener + 2] = packet[TARGET_PORT]
    table[at + IP_VERSION] = packet[VERSION]
    table[at + FIRST_NS] = time_ns
    table[at + HANDSHAKE_NS] = -1
    table[at + KNOWN_BY] = known_by
    for one in range(2):
        side = at + DIRECTIONS + one * DIRECTION_WORDS
        table[side + SCALE] = SCALE_UNKNOWN
        table[side + MSS] = -1
    return direction


@compiled
def unwrapped(relative: int, reached: int) -> int:
    """The number congruent to `relative` modulo 2**32 that is nearest to `reached`."""
    distance = (relative - reached) & WORD
    if distance >= HALF:
        distance -= 1 << 32
    return reached + distance
