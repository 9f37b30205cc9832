"""From a frame to its TCP header: link layers, VLAN tags, IPv4 and IPv6; tunnels are recognized.

The version in the header distinguishes IPv4 from IPv6. Packets of a tunnel (IP in IP, GRE, VXLAN,
Geneve) that carry TCP are counted, so that a capture of a tunnel is not mistaken for one without
TCP; the TCP inside them is not read.
Source: the link types of tcpdump.org/linktypes.html; IEEE 802.1Q; RFC 1661 and RFC 1662 (PPP);
RFC 791 and RFC 8200 (IP); RFC 2003 (IP in IP), RFC 4213 (IPv6 in IPv4), RFC 2784 and RFC 2890
(GRE), RFC 7348 (VXLAN), RFC 8926 (Geneve).
"""

from __future__ import annotations

from typing import Any

from labs.read.capture.compiled import be16, be32, be64, compiled, le32
from labs.read.capture.segment_table import (
    DAMAGED_HEADER,
    FIRST_FRAGMENT,
    LATER_FRAGMENT,
    LINK,
    NESTED,
    NOT_IP,
    NOT_TCP,
    SHORT,
    TUNNELLED,
)

NULL, ETHERNET, PPP, RAW_BSD, RAW_OPENBSD, PPP_SERIAL, RAW, LOOP = 0, 1, 9, 12, 14, 50, 101, 108
LINUX_COOKED, IPV4, IPV6, LINUX_COOKED_2 = 113, 228, 229, 276

IP_TYPE, IPV6_TYPE = 0x0800, 0x86DD
VLAN, QINQ, QINQ_OLD = 0x8100, 0x88A8, 0x9100
PPP_IP, PPP_IPV6 = 0x0021, 0x0057
PPP_ADDRESS = 0xFF03
INET = 2
MAX_TAGS = 8


@compiled
def tagged(data: Any, at: int, end: int) -> int:
    """The place of the IP header after the EtherType at `at` and its VLAN tags, or -(a count)."""
    for _ in range(MAX_TAGS + 1):
        if at + 2 > end:
            return -SHORT
        kind = be16(data, at)
        if kind in (IP_TYPE, IPV6_TYPE):
            return at + 2
        if kind not in (VLAN, QINQ, QINQ_OLD):
            return -NOT_IP
        at += 4
    return -NESTED


@compiled
def point_to_point(data: Any, at: int, end: int) -> int:
    """The place of the IP header in a PPP frame, with or without address and control bytes."""
    if at + 2 <= end and be16(data, at) == PPP_ADDRESS:
        at += 2
    if at + 1 > end:
        return -SHORT
    if data[at] & 1:  # the protocol field compressed to one byte
        protocol = int(data[at])
        at += 1
    elif at + 2 > end:
        return -SHORT
    else:
        protocol = be16(data, at)
        at += 2
    return at if protocol in (PPP_IP, PPP_IPV6) else -NOT_IP


@compiled
def loopback(data: Any, at: int, end: int) -> int:
    """The place of the IP header after a protocol family of four bytes, in either byte order."""
    if at + 4 > end:
        return -SHORT
    family = be32(data, at)
    if family > 0xFFFF:
        family = le32(data, at)
    # IPv6 is 10 on Linux, 24 on NetBSD and OpenBSD, 28 on FreeBSD, 30 on Darwin.
    if family in (INET, 10, 24, 28, 30):
        return at + 4
    return -NOT_IP


@compiled
def beyond_link(data: Any, at: int, end: int, link: int) -> int:
    """The place of the IP header of a frame, or -(the count of the reason why it has none)."""
    if link == ETHERNET:
        return tagged(data, at + 12, end)
    if link == LINUX_COOKED:
        return tagged(data, at + 14, end)
    if link == LINUX_COOKED_2:
        if at + 20 > end:
            return -SHORT
        kind = be16(data, at)
        if kind in (VLAN, QINQ):
            return tagged(data, at + 22, end)
        return at + 20 if kind in (IP_TYPE, IPV6_TYPE) else -NOT_IP
    if link in (RAW, RAW_BSD, RAW_OPENBSD, IPV4, IPV6):
        return at
    if link in (NULL, LOOP):
        return loopback(data, at, end)
    if link in (PPP, PPP_SERIAL):
        return point_to_point(data, at, end)
    return -LINK


TCP, UDP, GRE = 6, 17, 47
HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION = 0, 43, 44, 51, 60
MOBILITY, HOST_IDENTITY, SHIM6 = 135, 139, 140
MAX_EXTENSIONS = 16

# A packet, in an array of int64: where its TCP header begins, how many bytes header and payload
# have on the wire, and its addresses as two halves each (IPv4: the second alone).
TCP_AT, TCP_BYTES, SOURCE_HIGH, SOURCE_LOW, TARGET_HIGH, TARGET_LOW, VERSION = 0, 1, 2, 3, 4, 5, 6
PACKET_WORDS = 7


@compiled
def version_4(data: Any, at: int, end: int, wire_end: int, packet: Any, counts: Any) -> int:
    """Read the IPv4 header at `at` into `packet`: 0, or the count of why it has no TCP."""
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


IP_IN_IP, IPV6_IN_IP = 4, 41
BRIDGED = 0x6558  # an Ethernet frame inside GRE or Geneve
GRE_CHECKSUM, GRE_KEY, GRE_NUMBER, GRE_VERSION = 0x8000, 0x2000, 0x1000, 0x0007
# The port that IANA gave VXLAN, and the one that Linux takes if not told otherwise.
VXLAN_PORT, VXLAN_PORT_LINUX, GENEVE_PORT = 4789, 8472, 6081
UDP_BYTES = VXLAN_BYTES = GENEVE_BYTES = 8
ETHERNET_TYPE_AT = 12
MAX_TUNNELS = 4


@compiled
def inside_type(data: Any, at: int, end: int, kind: int) -> int:
    """The place of the IP header inside a tunnel, by the type of its content; -1 if none."""
    if kind == BRIDGED:
        return tagged(data, at + ETHERNET_TYPE_AT, end)
    return at if kind in (IP_TYPE, IPV6_TYPE) else -1


@compiled
def inside_gre(data: Any, at: int, end: int) -> int:
    """The place of the IP header inside GRE, whose header is at `at`; negative if none."""
    if at + 4 > end:
        return -1
    flags = be16(data, at)
    if flags & GRE_VERSION:
        return -1
    inner = at + 4
    for flag in (GRE_CHECKSUM, GRE_KEY, GRE_NUMBER):
        if flags & flag:
            inner += 4
    return inside_type(data, inner, end, be16(data, at + 2))


@compiled
def inside_udp(data: Any, at: int, end: int) -> int:
    """The place of the IP header inside VXLAN or Geneve over UDP at `at`; negative if none."""
    if at + UDP_BYTES + GENEVE_BYTES > end:
        return -1
    port = be16(data, at + 2)
    at += UDP_BYTES
    if port in (VXLAN_PORT, VXLAN_PORT_LINUX):
        return tagged(data, at + VXLAN_BYTES + ETHERNET_TYPE_AT, end)
    if port == GENEVE_PORT:
        options = (data[at] & 0x3F) * 4
        return inside_type(data, at + GENEVE_BYTES + options, end, be16(data, at + 2))
    return -1


@compiled
def has_tcp_inside(data: Any, at: int, end: int) -> bool:
    """Whether the packet whose IP header is at `at` carries TCP in a tunnel, or in several."""
    for _ in range(MAX_TUNNELS + 1):
        if at < 0 or at + 20 > end:
            return False
        if data[at] >> 4 == 4:
            if be16(data, at + 6) & 0x1FFF:  # a later fragment
                return False
            protocol, inner = int(data[at + 9]), at + (data[at] & 15) * 4
        elif data[at] >> 4 == 6:
            protocol, inner = int(data[at + 6]), at + 40
        else:
            return False
        if protocol == TCP:
            return True
        if protocol in (IP_IN_IP, IPV6_IN_IP):
            at = inner
        elif protocol == GRE:
            at = inside_gre(data, inner, end)
        elif protocol == UDP:
            at = inside_udp(data, inner, end)
        else:
            return False
    return False


@compiled
def find_tcp(
    data: Any, at: int, end: int, wire_end: int, link: int, packet: Any, counts: Any
) -> int:
    """Find the TCP header of the frame data[at:end], which ended at `wire_end` on the wire.

    Return 0 with `packet` filled in, if the header's 20 bytes and options were on the wire and the
    20 bytes are in the buffer; else the count of the reason why the frame has no row.
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
