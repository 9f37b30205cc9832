"""From a frame to the TCP header in it, through link layers, tags and tunnels.

Nearly every frame is Ethernet with IP, which `labs.read.capture.headers` reads. What that does not
understand is descended into here, one layer after the other. A packet inside a tunnel is told apart
from one outside with the same addresses: its `VERSION` word also carries a number made of the
identifiers of its tunnels (VNI, VSID) and their outer addresses, the same in both directions.

Source: IEEE 802.1Q, 802.2, 802.11; RFC 1042 (SNAP), RFC 2516 (PPPoE), RFC 3032 and RFC 4385 (MPLS),
RFC 2784 and 2890 (GRE), draft-foschiano-erspan-03, RFC 7348 (VXLAN), RFC 8926 (Geneve), 3GPP TS
29.281 (GTP-U); tcpdump.org/linktypes.html and radiotap.org for the link types. Layers that are not
read are named in `labs.read.capture.segment_table`.
"""

from __future__ import annotations

from labs.read.capture.headers import (
    IP_IN_IP,
    IPV6_IN_IP,
    PPP_ADDRESS,
    PPP_IP,
    PPP_IPV6,
    UDP,
    Frame,
    Packet,
    beyond_extensions,
    beyond_link,
    version_4,
    version_6,
)
from labs.read.capture.segment_table import (
    DAMAGED_HEADER,
    ENCRYPTED,
    LATER_FRAGMENT,
    LINK,
    LINK_KIND,
    NESTED,
    NOT_IP,
    NOT_TCP,
    SHORT,
    TUNNELLED,
    UNREAD,
    UNREAD_KIND,
    UNREAD_PORTS,
    UNREAD_PROTOCOLS,
    UNREAD_TYPES,
)
from labs.read.native.compiled import Bytes, Int64s, be16, be32, be64, le16, rare

# What begins at a place of a frame.
MAC, TYPE, IP, PPP_FRAME, LLC, LABELS, WIRELESS, GRE_HEADER, NOTHING = range(9)
MOST_LAYERS = 16

ETHERNET, WIFI, LINUX_COOKED, RADIOTAP, LINUX_COOKED_2 = 1, 105, 113, 127, 276
IPV4_TYPE, IPV6_TYPE, BRIDGED = 0x0800, 0x86DD, 0x6558
COOKED_LLC = 4
ESP, GRE = 50, 47
IKE_NAT, WIREGUARD, OPENVPN = 4500, 51820, 1194
KIND_SHIFT = 8
"""A layer that is not read is -(UNREAD, and its kind above so many bits)."""


@rare
def unread(kind: int) -> int:
    """In place of a place: a layer that is known and not read, by its kind."""
    return -(kind << KIND_SHIFT | UNREAD)


@rare
def after_type(kind: int) -> int:
    """What follows an EtherType; NOTHING if that is unknown."""
    if kind in (IPV4_TYPE, IPV6_TYPE):
        return IP
    if kind == BRIDGED:
        return MAC
    if kind in (0x8847, 0x8848):
        return LABELS
    return NOTHING


@rare
def by_type(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """What the EtherType at `at` announces, and where that begins."""
    if at + 2 > end:
        return NOTHING, -SHORT
    kind = be16(data, at)
    if kind in (0x8100, 0x88A8, 0x9100, 0x9200, 0x9300):  # VLAN tags
        return TYPE, at + 4
    if kind == 0x8864:  # PPPoE
        return PPP_FRAME, at + 8
    if kind in UNREAD_TYPES:
        return NOTHING, unread(kind)
    if kind == 0x88E5:
        return NOTHING, -ENCRYPTED
    if kind <= 1500:
        return LLC, at + 2
    layer = after_type(kind)
    return (layer, at + 2) if layer != NOTHING else (NOTHING, -NOT_IP)


@rare
def by_llc(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """What an LLC header announces."""
    if at + 8 > end:
        return NOTHING, -SHORT
    if be16(data, at) == 0xAAAA and data[at + 2] == 3:
        if data[at + 3] == 0 and data[at + 4] == 0x80 and data[at + 5] == 0xC2:  # bridged
            return MAC, at + 10 if be16(data, at + 6) in (1, 7) else at + 8
        return TYPE, at + 6
    return NOTHING, -NOT_IP


@rare
def by_labels(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """What follows a stack of MPLS labels: IP, or Ethernet with or without a control word."""
    for _ in range(MOST_LAYERS):
        if at + 6 > end:
            return NOTHING, -SHORT
        bottom = data[at + 2] & 1
        at += 4
        if bottom:
            first = data[at] >> 4
            if first in (4, 6):
                return IP, at
            return MAC, at + 4 if first == 0 and be16(data, at) == 0 else at
    return NOTHING, -NESTED


@rare
def by_ppp(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """What a PPP frame carries."""
    if at + 2 <= end and be16(data, at) == PPP_ADDRESS:
        at += 2
    if at + 2 > end:
        return NOTHING, -SHORT
    if data[at] & 1:
        protocol, at = int(data[at]), at + 1
    else:
        protocol, at = be16(data, at), at + 2
    if protocol in (PPP_IP, PPP_IPV6):
        return IP, at
    return NOTHING, -NOT_IP


@rare
def by_wireless(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """What an 802.11 frame carries: LLC, if it has data that is not encrypted."""
    if at + 24 > end:
        return NOTHING, -SHORT
    control = le16(data, at)
    subtype = control >> 4 & 15
    if control >> 2 & 3 != 2 or subtype & 4:
        return NOTHING, -NOT_IP
    if control & 0x4000:
        return NOTHING, -ENCRYPTED
    length = 24
    if control & 0x0300 == 0x0300:
        length += 6
    if subtype & 8:
        length += 2
        if control & 0x8000:
            length += 4
    return LLC, at + length


@rare
def by_gre(data: Bytes, at: int, end: int, packet: Packet) -> tuple[int, int]:
    """What GRE carries, if it is version 0."""
    if at + 4 > end:
        return NOTHING, -SHORT
    flags, kind = be16(data, at), be16(data, at + 2)
    inner = at + 4
    if flags & 0x8000 or flags & 0x4000:
        inner += 4
    if flags & 0x2000:
        # A plain key may differ per direction (RFC 2890); that of NVGRE is a network (RFC 7637).
        if flags & 7 == 0 and kind == BRIDGED and inner + 4 <= end:
            packet.version = marked(packet.version, be32(data, inner) >> 8)
        inner += 4
    if flags & 0x1000:
        inner += 4
    if kind in UNREAD_TYPES:
        return NOTHING, unread(kind)
    if kind == 0x88BE:  # ERSPAN, type II with a header of its own
        return MAC, inner + (8 if flags & 0x1000 else 0)
    if kind == 0x22EB and inner + 12 <= end:
        return MAC, inner + (20 if data[inner + 11] & 1 else 12)
    layer = after_type(kind)
    return (layer, inner) if layer != NOTHING else (NOTHING, -NOT_TCP)


@rare
def by_gtp(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """What GTP-U carries: IP in a message of type 255, after any extension headers."""
    if at + 12 > end or data[at] >> 5 != 1 or data[at + 1] != 255:
        return NOTHING, -NOT_TCP
    if data[at] & 7 == 0:
        return IP, at + 8
    following, inner = int(data[at + 11]), at + 12
    for _ in range(MOST_LAYERS):
        if following == 0:
            return IP, inner
        if inner + 4 > end or data[inner] == 0:
            return NOTHING, -SHORT
        length = int(data[inner]) * 4
        if inner + length > end:
            return NOTHING, -SHORT
        following, inner = int(data[inner + length - 1]), inner + length
    return NOTHING, -NESTED


@rare
def by_udp(data: Bytes, at: int, end: int, packet: Packet) -> tuple[int, int]:
    """What UDP at `at` carries, by its ports."""
    if at + 16 > end:
        return NOTHING, -SHORT if at + 8 > end else -NOT_TCP
    inner = at + 8
    for port in (be16(data, at + 2), be16(data, at)):
        if port in (4789, 8472):
            packet.version = marked(packet.version, be32(data, inner + 4) >> 8)
            return MAC, inner + 8
        if port == 6081:
            packet.version = marked(packet.version, be32(data, inner + 4) >> 8)
            layer = after_type(be16(data, inner + 2))
            inner += 8 + (data[inner] & 0x3F) * 4
            return (layer, inner) if layer != NOTHING else (NOTHING, -NOT_TCP)
        if port == 2152:
            return by_gtp(data, inner, end)
        if port in UNREAD_PORTS:
            return NOTHING, unread(port)
        if port in (IKE_NAT, WIREGUARD, OPENVPN):
            return NOTHING, -ENCRYPTED
    return NOTHING, -NOT_TCP


@rare
def by_protocol(data: Bytes, protocol: int, at: int, end: int, packet: Packet) -> tuple[int, int]:
    """What the payload of an IP packet is."""
    if protocol in (IP_IN_IP, IPV6_IN_IP):
        return IP, at
    if protocol == GRE:
        return GRE_HEADER, at
    if protocol == UDP:
        return by_udp(data, at, end, packet)
    if protocol in UNREAD_PROTOCOLS:
        return NOTHING, unread(protocol)
    return NOTHING, -ENCRYPTED if protocol == ESP else -NOT_TCP


@rare
def marked(version: int, identity: int) -> int:
    """The VERSION word of what is inside a tunnel: the version, and a number that two tunnels
    hardly share."""
    mixed = ((version >> 8) * 0x01000193 + identity * 0x1E3779B1 + 1) & 0x3FFFFFFF
    return mixed << 8 | version & 0xFF


@rare
def entered(data: Bytes, at: int, packet: Packet) -> None:
    """Mark what is inside the IP packet at `at` by its outer addresses, in either order."""
    if data[at] >> 4 == 4:
        identity = be32(data, at + 12) ^ be32(data, at + 16)
    else:
        whole = be64(data, at + 8) ^ be64(data, at + 16) ^ be64(data, at + 24) ^ be64(data, at + 32)
        identity = (whole ^ whole >> 32) & 0xFFFFFFFF
    packet.version = marked(packet.version, identity)


@rare
def protocol_of(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """The protocol of the payload of the IP packet at `at`, and its place, after the extension
    headers of IPv6."""
    if data[at] >> 4 == 4:
        if at + 20 > end:
            return -1, at
        return int(data[at + 9]), at + (data[at] & 15) * 4
    if at + 40 > end:
        return -1, at
    return beyond_extensions(data, int(data[at + 6]), at + 40, end)


@rare
def on_link(data: Bytes, frame: Frame) -> tuple[int, int]:
    """What a frame of a link type begins with; only of those that headers.beyond_link lacks."""
    at, end, link = frame.begin, frame.end, frame.link
    if link == ETHERNET:
        return TYPE, at + 12
    if at + 16 > end:
        return NOTHING, -SHORT
    if link == LINUX_COOKED:
        return (LLC, at + 16) if be16(data, at + 14) == COOKED_LLC else (TYPE, at + 14)
    if link == LINUX_COOKED_2:
        return (LLC, at + 20) if be16(data, at) == COOKED_LLC else (TYPE, at)
    if link == WIFI:
        return WIRELESS, at
    if link == RADIOTAP:
        return WIRELESS, at + le16(data, at + 2)
    if link in (9, 50):
        return PPP_FRAME, at
    return NOTHING, -LINK


@rare
def descend(data: Bytes, frame: Frame, packet: Packet, counts: Int64s) -> int:
    """Find the TCP header through any layers: 0 with `packet` filled in, or why there is none."""
    end, place = frame.end, beyond_link(data, frame)
    kind = IP
    if place < 0:
        kind, place = on_link(data, frame)
    packet.version = 0
    for _ in range(MOST_LAYERS):
        if place < 0:
            if -place >> KIND_SHIFT:
                counts[UNREAD_KIND] = -place >> KIND_SHIFT
            return -place & ((1 << KIND_SHIFT) - 1)
        if place + 1 > end:
            return SHORT
        if kind == MAC:
            kind, place = TYPE, place + 12
        elif kind == TYPE:
            kind, place = by_type(data, place, end)
        elif kind == LLC:
            kind, place = by_llc(data, place, end)
        elif kind == LABELS:
            kind, place = by_labels(data, place, end)
        elif kind == PPP_FRAME:
            kind, place = by_ppp(data, place, end)
        elif kind == WIRELESS:
            kind, place = by_wireless(data, place, end)
        elif kind == GRE_HEADER:
            kind, place = by_gre(data, place, end, packet)
        elif kind == IP:
            outer = packet.version
            version = data[place] >> 4
            if version == 4:
                why = version_4(data, place, frame, packet, counts)
            elif version == 6:
                why = version_6(data, place, frame, packet, counts)
            else:
                return NOT_IP
            if why == 0:
                packet.version |= outer & ~0xFF
                return 0
            if why != NOT_TCP:
                return why
            if version == 4 and be16(data, place + 6) & 0x1FFF:
                return LATER_FRAGMENT
            protocol, inner = protocol_of(data, place, end)
            if protocol < 0:
                return SHORT
            packet.version = outer
            entered(data, place, packet)
            kind, place = by_protocol(data, protocol, inner, end, packet)
        else:
            return NOT_IP
    return NESTED


def find_tcp(data: Bytes, frame: Frame, packet: Packet, counts: Int64s) -> int:
    """Find the TCP header of a frame.

    Return 0 with `packet` filled in, if the header's 20 bytes and options were on the wire and the
    20 bytes are in the buffer; else the count of the reason why the frame has no row.
    """
    end, ip = frame.end, beyond_link(data, frame)
    why = -ip
    if ip >= 0:
        if ip + 1 > end:
            return SHORT
        version = data[ip] >> 4
        if version == 4:
            why = version_4(data, ip, frame, packet, counts)
        elif version == 6:
            why = version_6(data, ip, frame, packet, counts)
        else:
            return NOT_IP
    if why in (NOT_TCP, NOT_IP, LINK):
        why = descend(data, frame, packet, counts)
        if why == LINK:
            counts[LINK_KIND] = frame.link + 1
        counts[TUNNELLED] += 1 if why == 0 and packet.version >> 8 else 0
    if why != 0:
        return why
    tcp = packet.tcp_at
    if packet.tcp_bytes < 20:
        return DAMAGED_HEADER
    if tcp + 20 > end:
        return SHORT
    header = (data[tcp + 12] >> 4) * 4
    if header < 20 or header > packet.tcp_bytes:
        return DAMAGED_HEADER
    return 0
