"""Whether a packet that is not TCP has TCP inside: IP in IP, GRE, VXLAN, Geneve.

Such packets are counted, so that a capture of a tunnel does not pass for one without TCP; what is
inside them is not read.
Source: RFC 2003 (IP in IP), RFC 4213 (IPv6 in IPv4), RFC 2784 and RFC 2890 (GRE), RFC 7348 (VXLAN),
RFC 8926 (Geneve).
"""

from __future__ import annotations

from typing import Any

from labs.read.capture.compiled import compiled
from labs.read.capture.integers import be16
from labs.read.capture.link_layer import IP_TYPE, IPV6_TYPE, tagged

TCP, UDP, GRE = 6, 17, 47
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
    """The place of the IP header in what a tunnel carries, by its type; -1 without."""
    if kind == BRIDGED:
        return tagged(data, at + ETHERNET_TYPE_AT, end)
    return at if kind in (IP_TYPE, IPV6_TYPE) else -1


@compiled
def inside_gre(data: Any, at: int, end: int) -> int:
    """The place of the IP header inside GRE, whose header is at `at`; negative without."""
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
    """The place of the IP header inside VXLAN or Geneve over UDP at `at`; negative without."""
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
