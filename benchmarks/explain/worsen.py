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
    data, found, at = path.read_bytes(), [], HEADER_BYTES
    while at + RECORD_BYTES <= len(data):
        seconds, rest, kept, wire = struct.unpack_from("<IIII", data, at)
        at += RECORD_BYTES
        found.append((seconds * 10**9 + rest, wire, data[at : at + kept]))
        at += kept
    return data[:HEADER_BYTES], found


def written(path: Path, header: bytes, found: list[Record]) -> Path:
    path.write_bytes(
        header
        + b"".join(
            struct.pack("<IIII", *divmod(at, 10**9), len(kept), wire) + kept
            for at, wire, kept in found
        )
    )
    return path


def from_client(kept: bytes) -> bool:
    return kept[26:30] == b"\x0a\x00\x00\x01"


def without_syn(found: list[Record], chance: Random) -> list[Record]:
    return [one for one in found if not one[2][TCP_FLAGS] & SYN]


def one_direction(found: list[Record], chance: Random) -> list[Record]:
    side = chance.random() < 0.5
    return [one for one in found if from_client(one[2]) == side]


def doubled(found: list[Record], chance: Random) -> list[Record]:
    later = chance.choice([0, 2_000, 40_000])
    made = [
        copy for at, wire, kept in found for copy in ((at, wire, kept), (at + later, wire, kept))
    ]
    return sorted(made, key=lambda one: one[0])


def holed(found: list[Record], chance: Random) -> list[Record]:
    share = chance.choice([0.01, 0.05])
    return [one for one in found if chance.random() >= share]


def clipped(found: list[Record], chance: Random) -> list[Record]:
    most = chance.choice([54, 68, 80])
    return [(at, wire, kept[:most]) for at, wire, kept in found]


def tunnelled(found: list[Record], chance: Random) -> list[Record]:
    """Inside GRE over IPv4."""
    made = []
    for at, wire, kept in found:
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


def begun_late(found: list[Record], chance: Random) -> list[Record]:
    return found[int(len(found) * chance.uniform(0.1, 0.4)) :]


def uncounted(found: list[Record], chance: Random) -> list[Record]:
    """Without identification of the IP packets, as of senders that do not count."""
    return [(at, wire, kept[:18] + b"\0\0" + kept[20:]) for at, wire, kept in found]


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
        header, found = records(path.with_suffix(".pcap"))
        made = written(work / f"{number}.pcap", header, WORSE[kind](found, chance))
        yield path.stem, kind, made, json.loads(path.read_text())
