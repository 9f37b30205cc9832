"""From a frame to its TCP header, the usual way: a link layer, VLAN tags, IPv4 or IPv6.

The version in the header distinguishes IPv4 from IPv6. `labs.read.capture.encapsulation` reads what
has other layers or tunnels.
Source: the link types of tcpdump.org/linktypes.html; IEEE 802.1Q; RFC 1661 and RFC 1662 (PPP);
RFC 791, RFC 792 and RFC 8200 (IP).
"""

from __future__ import annotations

from labs.read.capture.segment_table import (
    DAMAGED_HEADER,
    FIRST_FRAGMENT,
    ICMP_ERROR,
    LATER_FRAGMENT,
    LINK,
    NESTED,
    NOT_IP,
    NOT_TCP,
    SHORT,
)
from labs.read.native.compiled import Bytes, Int64s, Record, be16, be32, be64, le32, rare, record

NULL, ETHERNET, PPP, RAW_BSD, RAW_OPENBSD, PPP_SERIAL, RAW, LOOP = 0, 1, 9, 12, 14, 50, 101, 108
LINUX_COOKED, IPV4, IPV6, LINUX_COOKED_2 = 113, 228, 229, 276

IP_TYPE, IPV6_TYPE = 0x0800, 0x86DD
VLAN, QINQ, QINQ_OLD = 0x8100, 0x88A8, 0x9100
PPP_IP, PPP_IPV6 = 0x0021, 0x0057
PPP_ADDRESS = 0xFF03
INET = 2
MAX_TAGS = 8


def tagged(data: Bytes, at: int, end: int) -> int:
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


@rare
def point_to_point(data: Bytes, at: int, end: int) -> int:
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


@rare
def loopback(data: Bytes, at: int, end: int) -> int:
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


def beyond_link(data: Bytes, frame: Frame) -> int:
    """The place of the IP header of a frame, or -(the count of the reason why it has none)."""
    at, end, link = frame.begin, frame.end, frame.link
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


@record
class Frame(Record):
    """A record of a capture: where its frame begins and ends in the buffer, where the frame ended
    on the wire, its time and link type, and where the record's own header begins."""

    begin: int
    end: int
    wire_end: int
    time_ns: int
    link: int
    at: int


@record
class End(Record):
    """An address in two signed halves (IPv4: the second alone), and a port."""

    high: int
    low: int
    port: int


@record
class Packet(Record):
    """Where the TCP header begins, how many bytes header and payload have on the wire, both ends,
    the version of IP (and what tells tunnels apart), and IPv4's identification (-1 for IPv6)."""

    tcp_at: int
    tcp_bytes: int
    source: End
    target: End
    version: int
    identification: int
    hops: int


ICMP, ICMP_UNREACHABLE, QUOTED_BYTES = 1, 3, 28
TOO_BIG = 4  # the code of path MTU discovery, which refuses nothing (RFC 1191)


def take_ends(data: Bytes, at: int, packet: Packet) -> None:
    """Take the addresses of the IPv4 header at `at`."""
    packet.source.high, packet.source.low = 0, be32(data, at + 12)
    packet.target.high, packet.target.low = 0, be32(data, at + 16)
    packet.version = 4


@rare
def quoted(data: Bytes, at: int, end: int, packet: Packet) -> int:
    """Read from the ICMP error at `at` which TCP packet it is about (RFC 792: its IP header and
    eight bytes): ICMP_ERROR with `packet` filled in, its code as the identification, else
    NOT_TCP."""
    inner = at + 8
    if at + 8 + QUOTED_BYTES > end or data[at] != ICMP_UNREACHABLE or data[inner] != 0x45:
        return NOT_TCP
    if data[inner + 9] != TCP:
        return NOT_TCP
    packet.tcp_at, packet.tcp_bytes = inner + 20, 8
    packet.identification = data[at + 1]
    packet.hops = be16(data, at + 6)
    take_ends(data, inner, packet)
    return ICMP_ERROR


def version_4(data: Bytes, at: int, frame: Frame, packet: Packet, counts: Int64s) -> int:
    """Read the IPv4 header at `at` into `packet`: 0, or the count of why it has no TCP."""
    end, wire_end = frame.end, frame.wire_end
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
        if data[at + 9] == ICMP:
            return quoted(data, at + header, end, packet)
        return NOT_TCP
    fragment = be16(data, at + 6)
    if fragment & 0x1FFF:
        return LATER_FRAGMENT
    if fragment & 0x2000:
        counts[FIRST_FRAGMENT] += 1
    packet.tcp_at, packet.tcp_bytes = at + header, total - header
    packet.identification, packet.hops = be16(data, at + 4), data[at + 8]
    take_ends(data, at, packet)
    return 0


@rare
def version_6(data: Bytes, at: int, frame: Frame, packet: Packet, counts: Int64s) -> int:
    """Read the IPv6 header at `at` and its extension headers, as version_4 does."""
    end, wire_end = frame.end, frame.wire_end
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
    packet.tcp_at, packet.tcp_bytes = place, packet_end - place
    packet.source.high, packet.source.low = be64(data, at + 8), be64(data, at + 16)
    packet.target.high, packet.target.low = be64(data, at + 24), be64(data, at + 32)
    packet.version, packet.identification, packet.hops = 6, -1, data[at + 7]
    return 0


IP_IN_IP, IPV6_IN_IP = 4, 41


def beyond_extensions(data: Bytes, following: int, at: int, end: int) -> tuple[int, int]:
    """The protocol after the extension headers of IPv6 from `at` on, and its place; -1 if they are
    not whole."""
    for _ in range(MAX_EXTENSIONS):
        if following not in (
            HOP_BY_HOP,
            ROUTING,
            FRAGMENT,
            AUTHENTICATION,
            DESTINATION,
            MOBILITY,
            HOST_IDENTITY,
            SHIM6,
        ):
            return following, at
        if at + 8 > end:
            return -1, at
        length = (int(data[at + 1]) + 1) * 8
        if following == FRAGMENT:
            length = 8
        elif following == AUTHENTICATION:
            length = (int(data[at + 1]) + 2) * 4
        following, at = int(data[at]), at + length
    return -1, at
