"""From a frame to its IP header: the link layers that are read, and VLAN tags.

Source: the link types of tcpdump.org/linktypes.html; IEEE 802.1Q; RFC 1661 and RFC 1662 for PPP.
"""

from __future__ import annotations

from typing import Any

from labs.read.capture.compiled import compiled
from labs.read.capture.counts import LINK, NESTED, NOT_IP, SHORT
from labs.read.capture.integers import be16, be32, le32

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
    """The place of the IP header behind the EtherType at `at` and its VLAN tags, or -(a count)."""
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
    """The place of the IP header behind a protocol family of four bytes, in either byte order."""
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
    """The place of the IP header of a frame, or -(the count that says why there is none)."""
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
