"""Captures of flows that no program would produce, to compare two readers on them."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from random import Random

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
CLIENT, SERVER = 0x0A000001, 0x0A000002
SERVER_PORT = 80
BEGIN_US = 1_700_000_000_000_000
HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
Segment = tuple[int, bytes]


def segment(
    port: int,
    direction: int,
    seq: int,
    ack: int,
    flags: int,
    window: int = 64240,
    length: int = 0,
    options: bytes = b"",
) -> bytes:
    """An Ethernet frame; direction 0 is from the client at `port`. Checksums are 0."""
    ends = [(CLIENT, port), (SERVER, SERVER_PORT)]
    (source, source_port), (target, target_port) = ends if direction == 0 else ends[::-1]
    options += b"\1" * (-len(options) % 4)
    tcp = (
        struct.pack(
            ">HHIIHHHH",
            source_port,
            target_port,
            seq % 2**32,
            ack % 2**32,
            (5 + len(options) // 4) << 12 | flags,
            window,
            0,
            0,
        )
        + options
    )
    ip = struct.pack(
        ">BBHHHBBHII", 0x45, 0, 20 + len(tcp) + length, 0, 0x4000, 64, 6, 0, source, target
    )
    return b"\2\0\0\0\0\1\2\0\0\0\0\2\x08\0" + ip + tcp + bytes(length)


def capture(path: Path, segments: Iterable[Segment]) -> Path:
    """Write (microseconds, frame) pairs as a pcap file."""
    path.write_bytes(
        HEADER
        + b"".join(
            struct.pack("<IIII", *divmod(at, 1_000_000), len(frame), len(frame)) + frame
            for at, frame in segments
        )
    )
    return path


def random_flow(random: Random, port: int, begin: int) -> list[Segment]:
    """Segments of one connection, nearly in order, with all kinds of irregular numbers."""
    isn = [random.choice([1000, 0xFFFFFFF0, random.randrange(2**32)]) for _ in range(2)]
    made: list[Segment] = []
    at, following, windows = begin, list(isn), [20, 20]
    if random.random() < 0.75:
        scaled = random.random() < 0.75

        def scale() -> bytes:
            return b"\3\3" + bytes([random.choice([0, 2, 7])]) if scaled else b""

        made.append((at, segment(port, 0, isn[0], 0, SYN, options=scale())))
        at += random.choice([0, 1000, 40_000])
        if random.random() < 0.2:
            made.append((at, segment(port, 0, isn[0], 0, SYN, options=scale())))
        made.append((at, segment(port, 1, isn[1], isn[0] + 1, SYN | ACK, options=scale())))
        following = [isn[0] + 1, isn[1] + 1]
        at += random.choice([0, 1000, 40_000])
        made.append(
            (at, segment(port, 0, following[0], following[1], ACK, random.choice([20, 100, 0])))
        )
    acked = list(reversed(following))
    for _ in range(random.randrange(5, 80)):
        at += random.choice([0, 1, 500, 2999, 3001, 10_000, 25_000, 300_000, -400])
        side = random.randrange(2)
        seq = following[side] + random.choice([0, 0, 0, 0, -1, -1, -5, -10, -20, 3, 10, 1])
        if random.random() < 0.6:
            acked[side] = following[1 - side] + random.choice([0, 0, 0, -5, -10, 20])
        if random.random() < 0.3:
            windows[side] = random.choice([0, 0, 1, 5, 10, 20, 40])
        length = random.choice([0, 0, 0, 1, 1, 5, 10, 20])
        if random.random() < 0.15:
            length = max(0, min(60, acked[1 - side] + windows[1 - side] - seq))
        flags = (
            ACK
            | random.choice([0, PSH])
            | (random.choice([FIN, RST, 0]) if random.random() < 0.1 else 0)
        )
        flags &= ~ACK if random.random() < 0.03 else ~0
        made.append((at, segment(port, side, seq, acked[side], flags, windows[side], length)))
        following[side] = max(following[side], seq + length + bool(flags & FIN))
    return made


def random_capture(path: Path, seed: int, flows: int = 60) -> Path:
    random = Random(seed)
    return capture(
        path,
        [
            one
            for number in range(flows)
            for one in random_flow(random, 20_000 + number, BEGIN_US + 10_000_000 * number)
        ],
    )
