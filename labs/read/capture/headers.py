"""From a frame to its TCP header, over IPv4 and IPv6.

Source: RFC 791 and RFC 8200. IPv4 is told from IPv6 by the version in its header.
"""

from __future__ import annotations

from typing import Any

from labs.read.capture.compiled import be16, be32, be64, compiled
from labs.read.capture.counts import (
    DAMAGED_HEADER,
    FIRST_FRAGMENT,
    LATER_FRAGMENT,
    NESTED,
    NOT_IP,
    NOT_TCP,
    SHORT,
    TUNNELLED,
)
from labs.read.capture.encapsulation import beyond_link, has_tcp_inside

MAX_EXTENSIONS = 16
TCP = 6
HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION = 0, 43, 44, 51, 60
MOBILITY, HOST_IDENTITY, SHIM6 = 135, 139, 140

# A packet, in an array of int64: where its TCP header begins, how many bytes header and payload
# have on the wire, and its addresses as two halves each (IPv4: the second alone).
TCP_AT, TCP_BYTES, SOURCE_HIGH, SOURCE_LOW, TARGET_HIGH, TARGET_LOW, VERSION = 0, 1, 2, 3, 4, 5, 6
PACKET_WORDS = 7


@compiled
def version_4(data: Any, at: int, end: int, wire_end: int, packet: Any, counts: Any) -> int:
    """Read the IPv4 header at `at` into `packet`: 0, or the count that says why it has no TCP."""
    if at + 20 > end:
        return SHORT
    header = (data[at] & 15) * 4
    if header < 20:
        return DAMAGED_HEADER
    total = be16(data, at + 2)
    # A packet that the network card was to cut into segments has no length yet (or one too small
    # a field for it): then the frame's own length counts.
    if total == 0 or at + total > wire_end:
        total = wire_end - at
    if total < header:
        return DAMAGED_HEADER
    if data[at + 9] != TCP:
        return NOT_TCP
    fragment = be16(data, at + 6)
    if fragment & 0x1FFF:
        return LATER_FRAGMENT
    if fragment & 0x2000:
        counts[FIRST_FRAGMENT] += 1
    packet[TCP_AT] = at + header
    packet[TCP_BYTES] = total - header
    packet[SOURCE_HIGH] = 0
    packet[SOURCE_LOW] = be32(data, at + 12)
    packet[TARGET_HIGH] = 0
    packet[TARGET_LOW] = be32(data, at + 16)
    packet[VERSION] = 4
    return 0


@compiled
def version_6(data: Any, at: int, end: int, wire_end: int, packet: Any, counts: Any) -> int:
    """Read the IPv6 header at `at` and its extension headers, as version_4 does."""
    if at + 40 > end:
        return SHORT
    total = 40 + be16(data, at + 4)
    if total == 40 or at + total > wire_end:  # 40: a jumbogram, or left to the network card
        total = wire_end - at
    packet_end = at + total
    following = int(data[at + 6])
    place = at + 40
    first_fragment = False
    for _ in range(MAX_EXTENSIONS):
        if following == TCP:
            break
        is_fragment = following == FRAGMENT
        is_authentication = following == AUTHENTICATION
        if not (
            is_fragment
            or is_authentication
            or following in (HOP_BY_HOP, ROUTING, DESTINATION, MOBILITY, HOST_IDENTITY, SHIM6)
        ):
            return NOT_TCP
        if place + 8 > end:
            return SHORT
        following = int(data[place])
        length = (int(data[place + 1]) + 1) * 8
        if is_fragment:
            length = 8
            position = be16(data, place + 2)
            if position & 0xFFF8:
                return LATER_FRAGMENT
            first_fragment = first_fragment or position & 1 != 0
        elif is_authentication:
            length = (int(data[place + 1]) + 2) * 4
        place += length
    if following != TCP:
        return NESTED
    if place > packet_end:
        return DAMAGED_HEADER
    if first_fragment:
        counts[FIRST_FRAGMENT] += 1
    packet[TCP_AT] = place
    packet[TCP_BYTES] = packet_end - place
    packet[SOURCE_HIGH] = be64(data, at + 8)
    packet[SOURCE_LOW] = be64(data, at + 16)
    packet[TARGET_HIGH] = be64(data, at + 24)
    packet[TARGET_LOW] = be64(data, at + 32)
    packet[VERSION] = 6
    return 0


@compiled
def find_tcp(
    data: Any, at: int, end: int, wire_end: int, link: int, packet: Any, counts: Any
) -> int:
    """Find the TCP header of the frame data[at:end], which ended at `wire_end` on the wire.

    0 with `packet` filled in and the header's 20 bytes and options known to be on the wire, the
    20 bytes in the buffer too; else the count that says why the frame has no row.
    """
    at = beyond_link(data, at, end, link)
    if at < 0:
        return -at
    if at + 1 > end:
        return SHORT
    version = data[at] >> 4
    if version == 4:
        why = version_4(data, at, end, wire_end, packet, counts)
    elif version == 6:
        why = version_6(data, at, end, wire_end, packet, counts)
    else:
        return NOT_IP
    if why != 0:
        return TUNNELLED if why == NOT_TCP and has_tcp_inside(data, at, end) else why
    tcp = packet[TCP_AT]
    if packet[TCP_BYTES] < 20:
        return DAMAGED_HEADER
    if tcp + 20 > end:
        return SHORT
    header = (data[tcp + 12] >> 4) * 4
    if header < 20 or header > packet[TCP_BYTES]:
        return DAMAGED_HEADER
    return 0
