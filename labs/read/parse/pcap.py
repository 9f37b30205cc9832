"""Counts in a capture what one TCP port sent: bytes carried, segments, times, the handshake.

A small reader, for one question (does the capture agree with the other instruments?): classic
pcap files, Ethernet, IPv4, TCP. Lengths come from the IP header, so a capture that kept only the
first bytes of each packet counts right, and one that was cut in its last record too.
Source: pcap-savefile(5); RFC 791, RFC 9293.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from labs.errors import BadInput, Damaged

ETHERNET = 1
MAX_RECORD_BYTES = 1 << 24
_MAGIC = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
_PCAPNG = b"\x0a\x0d\x0d\x0a"
_SYN, _FIN, _ACK = 2, 1, 16


@dataclass(frozen=True)
class Carried:
    """What the port sent, over all its connections.

    `payload_bytes` is how far the sequence numbers reached (retransmissions counted once),
    `repeated_bytes` what was sent again; `segments` those with payload. Times are the capture's
    clock; `handshake_ns` from the first SYN to the first SYN-ACK, None when either is missing.
    `truncated` counts a last record that ends early, `skipped` frames that are not IPv4 TCP.
    """

    payload_bytes: int
    repeated_bytes: int
    segments: int
    connections: int
    first_ns: int | None
    last_ns: int | None
    handshake_ns: int | None
    packets: int
    skipped: int
    truncated: int


class _Flow:
    """One direction of one connection: the first sequence number, and how far it has come."""

    def __init__(self, begin: int) -> None:
        self.begin = begin
        self.reach = 0
        self.sent = 0

    def add(self, sequence: int, length: int) -> None:
        # Sequence numbers wrap: take the distance from the reach as a signed 32-bit number.
        offset = (sequence - self.begin - self.reach) & 0xFFFFFFFF
        if offset >= 1 << 31:
            offset -= 1 << 32
        end = self.reach + offset + length
        self.sent += length
        if end > self.reach:
            self.reach = end


def carried(path: Path, port: int) -> Carried:
    """Count what TCP port `port` sent in the capture file `path`.

    Raises BadInput for pcapng or another link type, Damaged for a file that is no capture.
    """
    with path.open("rb") as file:
        return _count(file, port)


class _Counts:
    def __init__(self) -> None:
        self.flows: dict[bytes, _Flow] = {}
        self.packets = self.segments = self.skipped = self.truncated = 0
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        self.syn_ns: int | None = None
        self.syn_ack_ns: int | None = None


def _count(file: BinaryIO, port: int) -> Carried:
    counts = _Counts()
    wanted = port.to_bytes(2, "big")
    for at_ns, frame in _frames(file, counts):
        counts.packets += 1
        if not _segment(frame, at_ns, wanted, counts):
            counts.skipped += 1
    flows = counts.flows.values()
    handshake = (
        None
        if counts.syn_ns is None or counts.syn_ack_ns is None
        else counts.syn_ack_ns - counts.syn_ns
    )
    reached = sum(flow.reach for flow in flows)
    return Carried(
        payload_bytes=reached,
        repeated_bytes=sum(flow.sent for flow in flows) - reached,
        segments=counts.segments,
        connections=len(counts.flows),
        first_ns=counts.first_ns,
        last_ns=counts.last_ns,
        handshake_ns=handshake,
        packets=counts.packets,
        skipped=counts.skipped,
        truncated=counts.truncated,
    )


def _frames(file: BinaryIO, counts: _Counts) -> Iterator[tuple[int, bytes]]:
    head = file.read(24)
    if head[:4] == _PCAPNG:
        raise BadInput("this is pcapng; only pcap is read: tcpdump -r FILE -w FILE.pcap makes one")
    if len(head) < 24 or head[:4] not in _MAGIC:
        raise Damaged("not a capture: the file does not begin as a pcap file does")
    order, scale_ns = _MAGIC[head[:4]]
    link_type = struct.unpack_from(order + "I", head, 20)[0] & 0xFFFF
    if link_type != ETHERNET:
        raise BadInput(f"link type {link_type}: only Ethernet (1) is read; capture on the device")
    record = struct.Struct(order + "IIII")
    while header := file.read(16):
        if len(header) < 16:
            counts.truncated += 1
            return
        seconds, fraction, length, _on_wire = record.unpack(header)
        if length > MAX_RECORD_BYTES:
            raise Damaged(f"a record of {length} bytes: the capture is damaged")
        frame = file.read(length)
        if len(frame) < length:
            counts.truncated += 1
            return
        yield seconds * 10**9 + fraction * scale_ns, frame


def _segment(frame: bytes, at_ns: int, wanted: bytes, counts: _Counts) -> bool:
    """Count one frame; False when it is not an IPv4 TCP segment whose headers are all there."""
    if len(frame) < 54 or frame[12:14] != b"\x08\x00" or frame[14] >> 4 != 4 or frame[23] != 6:
        return False
    tcp = 14 + (frame[14] & 15) * 4
    fragment = int.from_bytes(frame[20:22], "big") & 0x3FFF
    if fragment or len(frame) < tcp + 20:
        return False
    flags = frame[tcp + 13]
    source, target = frame[tcp : tcp + 2], frame[tcp + 2 : tcp + 4]
    if target == wanted and flags & _SYN and not flags & _ACK and counts.syn_ns is None:
        counts.syn_ns = at_ns
    if source != wanted:
        return True
    sequence = int.from_bytes(frame[tcp + 4 : tcp + 8], "big")
    key = frame[26:34] + frame[tcp : tcp + 4]
    if flags & _SYN:
        if counts.syn_ack_ns is None:
            counts.syn_ack_ns = at_ns
        sequence += 1
        if key not in counts.flows:
            counts.flows[key] = _Flow(sequence)
    length = int.from_bytes(frame[16:18], "big") - (tcp - 14) - (frame[tcp + 12] >> 4) * 4
    if length <= 0:
        return True
    flow = counts.flows.setdefault(key, _Flow(sequence))
    flow.add(sequence, length)
    counts.segments += 1
    counts.first_ns = at_ns if counts.first_ns is None else counts.first_ns
    counts.last_ns = at_ns
    return True
