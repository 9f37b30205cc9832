"""Makes captures worse in the ways in which captures of others are bad."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

HEADER_BYTES, RECORD_BYTES = 24, 16
SYN, TCP_FLAGS = 2, 47
Record = tuple[int, int, bytes]  # time in ns, length on the wire, captured bytes


def records(path: Path) -> tuple[bytes, list[Record]]:
    """The header and the records of a pcap file in nanoseconds."""
    data, packets, at = path.read_bytes(), [], HEADER_BYTES
    while at + RECORD_BYTES <= len(data):
        seconds, rest, kept, wire = struct.unpack_from("<IIII", data, at)
        at += RECORD_BYTES
        packets.append((seconds * 10**9 + rest, wire, data[at : at + kept]))
        at += kept
    return data[:HEADER_BYTES], packets


def written(path: Path, header: bytes, packets: list[Record]) -> Path:
    path.write_bytes(
        header
        + b"".join(
            struct.pack("<IIII", *divmod(at, 10**9), len(kept), wire) + kept
            for at, wire, kept in packets
        )
    )
    return path


def from_client(kept: bytes) -> bool:
    return kept[26:30] == b"\x0a\x00\x00\x01"


def without_syn(packets: list[Record], chance: Random) -> list[Record]:
    return [packet for packet in packets if not packet[2][TCP_FLAGS] & SYN]


def one_direction(packets: list[Record], chance: Random) -> list[Record]:
    side = chance.random() < 0.5
    return [packet for packet in packets if from_client(packet[2]) == side]


def doubled(packets: list[Record], chance: Random) -> list[Record]:
    later = chance.choice([0, 2_000, 40_000])
    made = [
        copy for at, wire, kept in packets for copy in ((at, wire, kept), (at + later, wire, kept))
    ]
    return sorted(made, key=lambda packet: packet[0])


def holed(packets: list[Record], chance: Random) -> list[Record]:
    share = chance.choice([0.01, 0.05])
    return [packet for packet in packets if chance.random() >= share]


def clipped(packets: list[Record], chance: Random) -> list[Record]:
    most = chance.choice([54, 68, 80])
    return [(at, wire, kept[:most]) for at, wire, kept in packets]


def tunnelled(packets: list[Record], chance: Random) -> list[Record]:
    """Inside GRE over IPv4."""
    made = []
    for at, wire, kept in packets:
        inner = b"\0\0\x08\0" + kept[14:]
        outer = struct.pack(
            ">BBHHHBBH4s4s",
            0x45,
            0,
            20 + 4 + wire - 14,
            0,
            0,
            64,
            47,
            0,
            b"\xc0\0\2\1",
            b"\xc0\0\2\2",
        )
        made.append((at, wire + 24, kept[:14] + outer + inner))
    return made


def begun_late(packets: list[Record], chance: Random) -> list[Record]:
    return packets[int(len(packets) * chance.uniform(0.1, 0.4)) :]


def uncounted(packets: list[Record], chance: Random) -> list[Record]:
    """Without identification of the IP packets, as of senders that do not count."""
    return [(at, wire, kept[:18] + b"\0\0" + kept[20:]) for at, wire, kept in packets]


WORSE: Final[dict[str, Callable[[list[Record], Random], list[Record]]]] = {
    "no SYN": without_syn,
    "one direction": one_direction,
    "doubled": doubled,
    "holes": holed,
    "clipped": clipped,
    "tunnelled": tunnelled,
    "begun late": begun_late,
    "IP ids do not count": uncounted,
}


def worsened(
    folder: Path, work: Path, count: int, seed: int
) -> Iterator[tuple[str, str, Path, dict[str, Any]]]:
    """`count` captures of the folder, each made worse in one way, by turns."""
    chance = Random(f"worse {seed}")
    paths = sorted(folder.glob("*.json"))
    for number, kind in zip(range(count), list(WORSE) * count, strict=False):
        path = chance.choice(paths)
        header, packets = records(path.with_suffix(".pcap"))
        made = written(work / f"{number}.pcap", header, WORSE[kind](packets, chance))
        yield path.stem, kind, made, json.loads(path.read_text())
