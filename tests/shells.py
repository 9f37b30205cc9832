"""A dialogue of TCP in every encapsulation that the reader looks into, and in some others."""

from __future__ import annotations

import struct

from scapy.packet import Raw

from tests.captures import Frames, dialogue, over_ipv4, over_ipv6, tunnels

MAC = bytes.fromhex("020000000001")
MACS = MAC + MAC
SNAP = b"\xaa\xaa\3\0\0\0\x08\0"
AH = b"\6\4\0\0\0\0\0\1\0\0\0\1" + bytes(12)


def outer(protocol: int, inner: bytes, head: bytes = MACS + b"\x08\0") -> bytes:
    """An IPv4 packet between two other hosts, with this payload."""
    sizes = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(inner), 7, 0, 64, protocol, 0)
    return head + sizes + b"\xc0\0\2\1\xc0\0\2\2" + inner


def udp(port: int, inner: bytes) -> bytes:
    return outer(17, struct.pack(">HHHH", 5, port, 8 + len(inner), 0) + inner)


def behind_ah(packet: bytes) -> bytes:
    """An IPv4 packet with an authentication header before its TCP."""
    total = struct.pack(">H", len(packet) + len(AH))
    return packet[:2] + total + packet[4:9] + b"\x33" + packet[10:20] + AH + packet[20:]


def label(number: int, *, last: bool) -> bytes:
    return struct.pack(">I", number << 12 | int(last) << 8 | 64)


def shells() -> dict[str, tuple[Frames, int]]:
    """The dialogue in each encapsulation beyond those of `tunnels`, and the link type."""
    packets = over_ipv4(Raw(), dialogue())
    six = over_ipv6(Raw(), dialogue())
    frames = [MACS + b"\x08\0" + one for one in packets]
    link = 1
    made: dict[str, tuple[Frames, int]] = {
        "mpls": ([MACS + b"\x88\x47" + label(16, last=True) + one for one in packets], link),
        "mpls-two-labels": (
            [
                MACS + b"\x88\x47" + label(16, last=False) + label(17, last=True) + one
                for one in packets
            ],
            link,
        ),
        "mpls-ethernet": (
            [MACS + b"\x88\x47" + label(16, last=True) + bytes(4) + one for one in frames],
            link,
        ),
        "pppoe": (
            [
                MACS + b"\x88\x64\x11\0\0\1" + struct.pack(">H", len(one) + 2) + b"\0\x21" + one
                for one in packets
            ],
            link,
        ),
        "llc-snap": ([MACS + struct.pack(">H", len(one) + 8) + SNAP + one for one in packets], 1),
        "pbb": ([MACS + b"\x88\xe7\0\0\0\7" + one for one in frames], link),
        "vn-tag": ([MACS + b"\x89\x26\0\0\0\0\x08\0" + one for one in packets], link),
        "ah": ([MACS + b"\x08\0" + behind_ah(one) for one in packets], link),
        "erspan-2": (
            [outer(47, b"\x10\0\x88\xbe\0\0\0\1" + b"\x10\1\0\0\0\0\0\0" + one) for one in frames],
            link,
        ),
        "gtp-u": (
            [udp(2152, b"\x30\xff" + struct.pack(">HI", len(one), 9) + one) for one in packets],
            link,
        ),
        "l2tp": ([udp(1701, b"\0\2\0\1\0\2\xff\3\0\x21" + one) for one in packets], link),
        "lisp": ([udp(4341, bytes(8) + one) for one in packets], link),
        "teredo": ([udp(3544, one) for one in six], link),
        "gre-mpls": (
            [outer(47, b"\0\0\x88\x47" + label(16, last=True) + one) for one in packets],
            link,
        ),
        "mpls-in-udp": ([udp(6635, label(16, last=True) + one) for one in packets], link),
        "vxlan-gpe": ([udp(4790, b"\x0c\0\0\1\0\0\7\0" + one) for one in packets], link),
        "etherip": ([outer(97, b"\x30\0" + one) for one in frames], link),
        "802.11": ([b"\x08\1\0\0" + MAC * 3 + b"\0\0" + SNAP + one for one in packets], 105),
        "radiotap": (
            [
                b"\0\0\x08\0\0\0\0\0" + b"\x08\1\0\0" + MAC * 3 + b"\0\0" + SNAP + one
                for one in packets
            ],
            127,
        ),
        "fddi": ([b"\x50" + MACS + SNAP + one for one in packets], 10),
        "nflog": (
            [b"\2\0\0\0" + struct.pack("<HH", len(one) + 4, 9) + one for one in packets],
            239,
        ),
        "pflog": ([b"\x3d\2\0\0" + bytes(60) + one for one in packets], 117),
        "cisco-hdlc": ([b"\x0f\0\x08\0" + one for one in packets], 104),
    }
    return made


NAMES = {
    **{"pbb": "802.1ah", "vn-tag": "a VN-tag", "ah": "AH", "l2tp": "L2TP", "lisp": "LISP"},
    **{"teredo": "Teredo", "mpls-in-udp": "MPLS in UDP", "vxlan-gpe": "VXLAN-GPE"},
    **{"etherip": "EtherIP", "fddi": "FDDI (10)", "nflog": "NFLOG (239)"},
    **{"pflog": "PFLOG (117)", "cisco-hdlc": "Cisco HDLC (104)"},
}
"""Those that are not read, by the name under which they are refused."""
_ALL: dict[str, tuple[Frames, int]] = {
    **{name: (frames, 1) for name, frames in tunnels().items()},
    **shells(),
}
KINDS = {name: made for name, made in _ALL.items() if name not in NAMES}
UNREAD = {name: _ALL[name] for name in NAMES}
"""The frames and the link type of each encapsulation."""
