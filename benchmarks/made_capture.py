"""A capture of a given number of packets: downloads side by side, with losses and SACK blocks."""

from __future__ import annotations

import random
import struct
from pathlib import Path

FLOWS = 40
MSS = 1448
SNAP_BYTES = 96
BEGIN_NS = 1_790_000_000 * 10**9


class Flow:
    """One download: what its two ends would send next."""

    def __init__(self, number: int, chance: random.Random) -> None:
        self.ends = (bytes([10, 0, 0, 2, 10, 0, 1, number]), bytes([10, 0, 1, number, 10, 0, 0, 2]))
        self.ports = (
            struct.pack(">HH", 80, 40_000 + number),
            struct.pack(">HH", 40_000 + number, 80),
        )
        self.server = self.first_server = chance.getrandbits(32)
        self.client = chance.getrandbits(32)
        self.acknowledged = self.server
        self.hole: int | None = None

    def segment(
        self,
        from_client: bool,
        seq: int,
        ack: int,
        flags: int,
        options: bytes,
        payload: int,
        window: int,
    ) -> bytes:
        total = 40 + len(options) + payload
        return b"".join(
            [
                b"\2\0\0\0\0\1\2\0\0\0\0\2\x08\0",
                struct.pack(">BBHHHBBH", 0x45, 0, total, 0, 0x4000, 64, 6, 0),
                self.ends[from_client],
                self.ports[from_client],
                struct.pack(
                    ">IIBBHHH",
                    seq & 0xFFFFFFFF,
                    ack & 0xFFFFFFFF,
                    (20 + len(options)) // 4 << 4,
                    flags,
                    window,
                    0,
                    0,
                ),
                options,
                bytes(payload),
            ]
        )

    def next(self, at_ms: int, chance: random.Random) -> list[bytes]:
        """Two segments of data and the acknowledgement; now and then one is lost and repaired."""
        stamp = b"\1\1\x08\x0a" + struct.pack(">II", at_ms & 0xFFFFFFFF, at_ms - 20 & 0xFFFFFFFF)
        if self.hole is not None:
            begin, self.hole = self.hole, None
            self.acknowledged = self.server
            return [
                self.segment(False, begin, self.client, 0x18, stamp, MSS, 501),
                self.segment(True, self.client, self.server, 0x10, stamp, 0, 2048),
            ]
        begin = self.server
        self.server += 2 * MSS
        if chance.random() < 0.02:
            self.hole = begin
            sack = (
                stamp
                + b"\1\1\5\x0a"
                + struct.pack(">II", begin + MSS & 0xFFFFFFFF, self.server & 0xFFFFFFFF)
            )
            return [
                self.segment(False, begin + MSS, self.client, 0x10, stamp, MSS, 501),
                self.segment(True, self.client, begin, 0x10, sack, 0, 2048),
            ]
        self.acknowledged = self.server
        return [
            self.segment(False, begin, self.client, 0x10, stamp, MSS, 501),
            self.segment(False, begin + MSS, self.client, 0x18, stamp, MSS, 501),
            self.segment(True, self.client, self.server, 0x10, stamp, 0, 2048),
        ]

    def handshake(self, at_ms: int) -> list[bytes]:
        options = b"\2\4\5\xb4\4\2\x08\x0a" + struct.pack(">II", at_ms, 0) + b"\1\3\3\7"
        stamp = b"\1\1\x08\x0a" + struct.pack(">II", at_ms, at_ms)
        made = [
            self.segment(True, self.client, 0, 2, options, 0, 64240),
            self.segment(False, self.server, self.client + 1, 0x12, options, 0, 65160),
            self.segment(True, self.client + 1, self.server + 1, 0x10, stamp, 0, 502),
        ]
        self.client += 1
        self.server += 1
        return made


def write_capture(path: Path, packets: int) -> None:
    """Write a pcap file (nanoseconds, the first 96 bytes of each packet), the same every time."""
    chance = random.Random(1)
    flows = [Flow(number, chance) for number in range(FLOWS)]
    written, at_ns = 0, BEGIN_NS
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, SNAP_BYTES, 1))
        pending = [frame for flow in flows for frame in flow.handshake(1000)]
        while written < packets:
            for frame in pending[: packets - written]:
                kept = frame[:SNAP_BYTES]
                file.write(
                    struct.pack("<IIII", at_ns // 10**9, at_ns % 10**9, len(kept), len(frame))
                    + kept
                )
                at_ns += 12_000 if len(frame) > SNAP_BYTES else 1_000
                written += 1
            pending = chance.choice(flows).next((at_ns - BEGIN_NS) // 1_000_000 + 1000, chance)
