"""Captures of what no run of the labs puts on a wire, made by scapy: one function per subject."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_RR
from scapy.layers.inet6 import (
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
)
from scapy.layers.ipsec import AH
from scapy.layers.l2 import ARP, GRE, CookedLinux, CookedLinuxV2, Dot1AD, Dot1Q, Ether, Loopback
from scapy.layers.ppp import HDLC, PPP
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

from labs.read.capture import read

BEGIN_NS = 1_790_000_000_123_456_789
STEP_NS = 1_234_567
ETHERNET = 1
MAC = "02:00:00:00:00:01"
ETHER = Ether(src=MAC, dst=MAC)
VLAN_TAG = b"\0\7\x08\0"  # VLAN 7, and IPv4 behind it
Frames = list[bytes]

CLIENT_OPTIONS = [
    ("MSS", 1460),
    ("SAckOK", b""),
    ("Timestamp", (1000, 0)),
    ("NOP", None),
    ("WScale", 7),
]
SERVER_OPTIONS = [
    ("MSS", 1440),
    ("SAckOK", b""),
    ("Timestamp", (5000, 1000)),
    ("NOP", None),
    ("WScale", 3),
]


def segment(
    source: int,
    destination: int,
    window: int,
    flags: str,
    seq: int,
    ack: int,
    options: list[Any],
    payload: bytes,
) -> Any:
    """A TCP header and its payload, if it has any."""
    header = TCP(
        sport=source,
        dport=destination,
        flags=flags,
        seq=seq % 2**32,
        ack=ack % 2**32,
        window=window,
        options=options,
    )
    return header / Raw(payload) if payload else header


def dialogue(**given: Any) -> list[Any]:
    """The TCP headers and payloads of one short connection, with a loss and a SACK; each with
    whether it is from the client."""
    client, server = given.get("client", 1_000_000), given.get("server", 4_294_967_000)
    port, peer = given.get("port", 40000), given.get("peer", 80)
    first = given.get("client_options", CLIENT_OPTIONS)
    second = given.get("server_options", SERVER_OPTIONS)

    def stamp(value: int, echo: int) -> list[Any]:
        return [("NOP", None), ("NOP", None), ("Timestamp", (value, echo))]

    def up(flags: str, seq: int, ack: int, options: list[Any], payload: bytes = b"") -> Any:
        return True, segment(port, peer, 502, flags, seq, ack, options, payload)

    def down(flags: str, seq: int, ack: int, options: list[Any], payload: bytes = b"") -> Any:
        return False, segment(peer, port, 1000, flags, seq, ack, options, payload)

    data = bytes(600)
    edges = tuple((server + at) % 2**32 for at in (601, 1201, 1801, 2401))
    sack = [*stamp(1003, 5001), ("NOP", None), ("NOP", None), ("SAck", edges)]
    return [
        up("S", client, 0, first),
        down("SA", server, client + 1, second),
        up("A", client + 1, server + 1, stamp(1001, 5000)),
        up("PA", client + 1, server + 1, stamp(1002, 5000), b"GET / HTTP/1.1\r\n\r\n"),
        down("A", server + 1, client + 19, stamp(5001, 1002), data),
        down("A", server + 601, client + 19, stamp(5001, 1002), data),
        down("PA", server + 1801, client + 19, stamp(5001, 1002), data),
        up("A", client + 19, server + 1, sack),
        down("PA", server + 1, client + 19, stamp(5002, 1003), data),
        up("A", client + 19, server + 1201, []),
        down("FA", server + 2401, client + 19, []),
        up("FA", client + 19, server + 2402, []),
        down("A", server + 2402, client + 20, []),
    ]


def over_ipv4(link: Any, segments: Iterable[Any], **options: Any) -> Frames:
    return [
        bytes(
            link
            / IP(
                src="10.0.0.2" if up else "10.0.0.1",
                dst="10.0.0.1" if up else "10.0.0.2",
                **options,
            )
            / segment
        )
        for up, segment in segments
    ]


def behind(head: bytes) -> Frames:
    """The dialogue over IPv4, each packet preceded by these bytes."""
    return [head + frame for frame in over_ipv4(Raw(), dialogue())]


def over_ipv6(link: Any, segments: Iterable[Any], extension: Any = None) -> Frames:
    made = []
    for up, segment in segments:
        head = IPv6(src="fd00::2" if up else "fd00::1", dst="fd00::1" if up else "fd00::2")
        inner = head / segment if extension is None else head / extension / segment
        made.append(bytes(link / inner))
    return made


def pcap(
    path: Path,
    frames: Frames,
    link: int = ETHERNET,
    order: str = "<",
    nanoseconds: bool = True,
    snap: int = 262_144,
    modified: bool = False,
) -> Path:
    """Write frames as a pcap file, one every STEP_NS."""
    magic = 0xA1B2CD34 if modified else 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    parts = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snap, link)]
    for number, frame in enumerate(frames):
        at_ns = BEGIN_NS + number * STEP_NS
        fraction = at_ns % 10**9 // (1 if magic == 0xA1B23C4D else 1000)
        kept = frame[:snap]
        parts.append(struct.pack(order + "IIII", at_ns // 10**9, fraction, len(kept), len(frame)))
        parts += [bytes(8)] if modified else []
        parts.append(kept)
    path.write_bytes(b"".join(parts))
    return path


def option(order: str, code: int, value: bytes) -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def block(order: str, kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    length = len(body) + 12
    return struct.pack(order + "II", kind, length) + body + struct.pack(order + "I", length)


def section(order: str) -> bytes:
    return block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))


def interface(
    order: str, link: int, resolution: int | None = None, offset_s: int | None = None, snap: int = 0
) -> bytes:
    options = b""
    if resolution is not None:
        options += option(order, 9, bytes([resolution]))
    if offset_s is not None:
        options += option(order, 14, struct.pack(order + "q", offset_s))
    return block(
        order,
        1,
        struct.pack(order + "HHI", link, 0, snap)
        + (options + option(order, 0, b"") if options else b""),
    )


def units(at_ns: int, resolution: int) -> int:
    """A time in the units of an interface."""
    if resolution & 128:
        return (at_ns << (resolution & 127)) // 10**9
    return at_ns * int(10**resolution) // 10**9


def enhanced(order: str, number: int, stamp: int, frame: bytes, snap: int = 262_144) -> bytes:
    kept = frame[:snap]
    return block(
        order,
        6,
        struct.pack(order + "IIIII", number, stamp >> 32, stamp & 0xFFFFFFFF, len(kept), len(frame))
        + kept,
    )


def obsolete(order: str, number: int, stamp: int, frame: bytes) -> bytes:
    return block(
        order,
        2,
        struct.pack(
            order + "HHIIII", number, 0, stamp >> 32, stamp & 0xFFFFFFFF, len(frame), len(frame)
        )
        + frame,
    )


def simple(order: str, frame: bytes) -> bytes:
    return block(order, 3, struct.pack(order + "I", len(frame)) + frame)


def every_pcapng(path: Path) -> Path:
    """Two sections of different byte orders; interfaces of three resolutions, one with an offset
    in seconds, one of another link type; enhanced and obsolete packets, and blocks to skip."""
    ethernet = over_ipv4(ETHER, dialogue())
    raw = over_ipv4(Raw(), dialogue(port=40001))
    parts = []
    for order in "<>":
        resolutions = (6, 9, 128 | 20)
        offset_s = 86_400
        parts += [
            section(order),
            interface(order, ETHERNET),
            interface(order, 101, 9, offset_s),
            interface(order, ETHERNET, 128 | 20),
            block(order, 0x0BAD, b"to step over"),
        ]
        for number, (one, other) in enumerate(zip(ethernet, raw, strict=True)):
            at_ns = BEGIN_NS + number * STEP_NS + (10**12 if order == ">" else 0)
            which = 0 if number % 3 else 2
            form = obsolete if number % 4 == 1 else enhanced
            parts.append(form(order, which, units(at_ns, resolutions[which]), one))
            parts.append(enhanced(order, 1, at_ns - offset_s * 10**9, other))
    path.write_bytes(b"".join(parts))
    return path


def reused_ports() -> Frames:
    """Three connections with the same addresses and ports; the second lacks its SYN-ACK."""
    second = [it for number, it in enumerate(dialogue(client=9_000_000, server=77)) if number != 1]
    return [
        frame
        for one in (dialogue(), second, dialogue(client=123, server=456))
        for frame in over_ipv4(ETHER, one)
    ]


def others() -> Frames:
    """Frames without a TCP segment: ARP, UDP, ICMP, a later fragment, inconsistent headers."""
    ends = IP(src="10.0.0.1", dst="10.0.0.2")
    whole = bytes(ends / TCP(sport=80, dport=40000, flags="A", seq=1, ack=1) / Raw(bytes(100)))
    head = bytes(ETHER / IP())[:14]
    return [
        bytes(ETHER / ARP()),
        bytes(ETHER / ends / UDP(sport=1, dport=2) / Raw(b"x")),
        bytes(ETHER / ends / ICMP()),
        bytes(ETHER / IP(src="10.0.0.1", dst="10.0.0.2", frag=10, proto=6) / Raw(bytes(64))),
        head + b"\x41" + whole[1:],  # an IPv4 header of 4 bytes
        head + whole[:2] + b"\0\x10" + whole[4:],  # a total of 16 bytes
        head + whole[:32] + b"\x40" + whole[33:],  # a TCP header of 16 bytes
        head + whole[:32] + b"\xf0" + whole[33:52],  # one longer than its packet
        head + b"\x71" + whole[1:],  # version 7
        bytes(Ether(type=0x1234, src=MAC, dst=MAC)) + whole,
        b"\0" * 9,
        b"",
    ]


def tunnels() -> dict[str, Frames]:
    """The dialogue of 13 segments inside tunnels, by the kind of tunnel."""
    four, six = IP(src="10.9.0.1", dst="10.9.0.2"), IPv6(src="fd09::1", dst="fd09::2")
    udp = UDP(sport=50000, dport=4789)
    geneve = b"\x02\0\x65\x58\0\0\x07\0" + bytes(8)  # two words of options
    plain = [frame[14:] for frame in over_ipv4(ETHER, dialogue())]
    plain_6 = [frame[14:] for frame in over_ipv6(ETHER, dialogue())]
    framed = over_ipv4(ETHER, dialogue())
    tagged = over_ipv4(ETHER / Dot1Q(vlan=7), dialogue())

    def inside(outer: Any, frames: Frames) -> Frames:
        return [bytes(ETHER / outer / Raw(frame)) for frame in frames]

    return {
        "ip-in-ip": inside(IP(proto=4), plain),
        "6in4": inside(IP(proto=41), plain_6),
        "ip-in-ipv6": inside(IPv6(nh=4), plain),
        "ip-in-ip-in-ip": inside(IP(proto=4) / IP(proto=4), plain),
        "gre": inside(four / GRE(proto=0x0800), plain),
        "gre-over-ipv6": inside(six / GRE(proto=0x86DD), plain_6),
        "gre-key": inside(four / GRE(proto=0x0800, key_present=1, key=5, seqnum_present=1), plain),
        "gre-bridged": inside(four / GRE(proto=0x6558), framed),
        "vxlan": inside(four / udp / VXLAN(vni=7), framed),
        "vxlan-linux": inside(four / UDP(sport=5, dport=8472) / VXLAN(vni=7), tagged),
        "geneve": inside(four / UDP(sport=5, dport=6081) / Raw(geneve), framed),
    }


def without_syns(path: Path, to: Path) -> Path:
    """The capture as a pcap file without the records with a SYN, as if started too late."""
    open_, whole = gzip.open if path.suffix == ".gz" else open, read(path)
    with open_(path, "rb") as file:
        kept = memoryview(file.read())
    syn = set(whole["offset"][whole["flags"] & 2 != 0])
    at, parts = 24, [kept[:24]]
    while at < len(kept):
        end = at + 16 + int.from_bytes(kept[at + 8 : at + 12], "little")
        parts += [] if at in syn else [kept[at:end]]
        at = end
    to.write_bytes(b"".join(parts))
    assert len(read(to)) == len(whole) - len(syn)
    return to


def without_length(frame: bytes) -> bytes:
    """The Ethernet frame as captured before the network card cut it into segments."""
    return frame[:16] + b"\0\0" + frame[18:]


LARGE = TCP(sport=80, dport=40000, flags="PA", seq=5, ack=7, window=100) / Raw(bytes(30_000))


def link_types() -> dict[str, tuple[Frames, int]]:
    """The dialogue on every link type, by its subject, with the number of the link type."""
    return {
        "ethernet": (over_ipv4(ETHER, dialogue()), ETHERNET),
        "vlan": (over_ipv4(ETHER / Dot1Q(vlan=7), dialogue()), ETHERNET),
        "qinq": (over_ipv4(ETHER / Dot1AD(vlan=7) / Dot1Q(vlan=8), dialogue()), ETHERNET),
        "qinq-ipv6": (over_ipv6(ETHER / Dot1Q(vlan=7) / Dot1Q(vlan=8), dialogue()), ETHERNET),
        "cooked": (over_ipv4(CookedLinux(proto=0x0800), dialogue()), 113),
        "cooked-ipv6": (over_ipv6(CookedLinux(proto=0x86DD), dialogue()), 113),
        "cooked-2": (over_ipv4(CookedLinuxV2(proto=0x0800), dialogue()), 276),
        "cooked-2-ipv6": (over_ipv6(CookedLinuxV2(proto=0x86DD), dialogue()), 276),
        "cooked-vlan": (behind(bytes(CookedLinux(proto=0x8100)) + VLAN_TAG), 113),
        "cooked-2-vlan": (behind(bytes(CookedLinuxV2(proto=0x8100)) + VLAN_TAG), 276),
        "qinq-old": (behind(bytes(ETHER)[:12] + b"\x91\0\0\7\x81\0" + VLAN_TAG), ETHERNET),
        "raw": (over_ipv4(Raw(), dialogue()), 101),
        "raw-bsd": (over_ipv4(Raw(), dialogue()), 12),
        "raw-openbsd": (over_ipv4(Raw(), dialogue()), 14),
        "raw-ipv6": (over_ipv6(Raw(), dialogue()), 101),
        "raw-ipv4-only": (over_ipv4(Raw(), dialogue()), 228),
        "raw-ipv6-only": (over_ipv6(Raw(), dialogue()), 229),
        "null": (over_ipv4(Loopback(type=2), dialogue()), 0),
        "null-ipv6": (over_ipv6(Loopback(type=30), dialogue()), 0),
        "loop": ([struct.pack(">I", 2) + frame for frame in over_ipv4(Raw(), dialogue())], 108),
        "ppp": (over_ipv4(PPP(proto=0x0021), dialogue()), 9),
        "null-other-order": (behind(struct.pack(">I", 2)), 0),
        "ppp-ipv6": (over_ipv6(PPP(proto=0x0057), dialogue()), 9),
        "ppp-short-protocol": (behind(b"\x21"), 9),
        "ppp-hdlc-short-protocol": (behind(b"\xff\x03\x21"), 50),
        "ppp-hdlc": (over_ipv4(HDLC() / PPP(proto=0x0021), dialogue()), 50),
    }


def headers() -> dict[str, tuple[Frames, int]]:
    """The dialogue in IP packets with options, extension headers and fragments, by its subject."""
    hop = IPv6ExtHdrHopByHop() / IPv6ExtHdrRouting() / IPv6ExtHdrDestOpt()
    return {
        "ipv4-options": (
            over_ipv4(ETHER, dialogue(), options=IPOption_RR(routers=["1.2.3.4", "5.6.7.8"])),
            ETHERNET,
        ),
        "ipv6": (over_ipv6(ETHER, dialogue()), ETHERNET),
        "ipv6-extensions": (over_ipv6(ETHER, dialogue(), hop), ETHERNET),
        "ipv6-authentication": (
            over_ipv6(ETHER, dialogue(), AH(nh=6, payloadlen=4, icv=bytes(12))),
            ETHERNET,
        ),
        "ipv6-fragments": (
            over_ipv6(ETHER, dialogue(), IPv6ExtHdrFragment(m=1))
            + over_ipv6(ETHER, dialogue(port=3), IPv6ExtHdrFragment(offset=5)),
            ETHERNET,
        ),
        "fragments": (
            over_ipv4(ETHER, dialogue(), flags="MF") + over_ipv4(ETHER, dialogue(port=3), frag=5),
            ETHERNET,
        ),
        "larger-than-the-mtu": ([bytes(ETHER / IP() / LARGE)], ETHERNET),
        "without-length": (
            [without_length(frame) for frame in over_ipv4(ETHER, dialogue())]
            + [without_length(bytes(ETHER / IP() / LARGE))],
            ETHERNET,
        ),
        "others": (over_ipv4(ETHER, dialogue()) + others(), ETHERNET),
        "other-link": ([bytes(60)], 147),
        "nothing": ([], ETHERNET),
    }


def connections() -> dict[str, tuple[Frames, int]]:
    """Connections with missing segments or unusual options, by their subject."""
    return {
        "reused-ports": (reused_ports(), ETHERNET),
        "no-scaling": (over_ipv4(ETHER, dialogue(client_options=[])), ETHERNET),
        "server-without-scaling": (over_ipv4(ETHER, dialogue(server_options=[])), ETHERNET),
        "scale-too-large": (over_ipv4(ETHER, dialogue(server_options=[("WScale", 40)])), ETHERNET),
        "without-syn-ack": (
            [frame for number, frame in enumerate(over_ipv4(ETHER, dialogue())) if number != 1],
            ETHERNET,
        ),
        "without-syn": (over_ipv4(ETHER, dialogue())[1:], ETHERNET),
        "from-the-middle": (over_ipv4(ETHER, dialogue())[4:], ETHERNET),
        "syn-after-syn-ack": (
            [over_ipv4(ETHER, dialogue())[number] for number in (1, 0, 2, 3, 4)],
            ETHERNET,
        ),
    }


def made(path: Path) -> dict[str, Path]:
    """Every capture, by its subject, written into the folder."""
    path.mkdir(parents=True, exist_ok=True)
    plain = {**link_types(), **headers(), **connections()}
    found = {name: pcap(path / f"{name}.pcap", *it) for name, it in plain.items()}
    frames = over_ipv4(ETHER, dialogue())
    forms: dict[str, dict[str, Any]] = {
        "big-endian": {"order": ">"},
        "microseconds": {"nanoseconds": False},
        "big-endian-microseconds": {"order": ">", "nanoseconds": False},
        "modified": {"modified": True},
        **{f"first-{snap}-bytes": {"snap": snap} for snap in (14, 34, 40, 54, 60, 66, 80)},
    }
    for name, settings in forms.items():
        found[name] = pcap(path / f"{name}.pcap", frames, **settings)
    found["pcapng"] = every_pcapng(path / "sections.pcapng")
    found["gzip"] = path / "again.pcap.gz"
    found["gzip"].write_bytes(gzip.compress(found["ethernet"].read_bytes()))
    return found
