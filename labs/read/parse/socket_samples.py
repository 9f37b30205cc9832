"""A parser of the samples that a receiver takes of its own socket.

Source: `labs/guest/programs/hold.py`, which writes them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields

from labs.errors import Damaged


@dataclass(frozen=True)
class SocketSample:
    """A receiving socket after the arrival of a data segment.

    Sizes are in bytes. `rcv_wnd` is None for a kernel whose tcp_info has none. `read_bytes` is what
    the program has read so far. `counters` are changes since the first sample; None for a counter
    that the kernel lacks.
    """

    time_ns: int
    data_segs_in: int
    segs_in: int
    bytes_received: int
    rcvq_bytes: int
    rmem_alloc: int
    rcvbuf: int
    backlog: int
    drops: int
    rcv_ssthresh: int
    rcv_space: int
    rcv_mss: int
    advmss: int
    rcv_wnd: int | None
    read_bytes: int
    counters: Mapping[str, int | None]


SAMPLED = tuple(field.name for field in fields(SocketSample) if field.name != "counters")
NO_WINDOW = -1
TRUESIZES = "payload_bytes,truesize_bytes"
# Numbers that 64 bits hold in any case (times have 19 digits), or nothing.
_NUMBER = r"(?:-?(?:[1-8]\d{18}|\d{1,18}))?"
_SHORT_NUMBERS = re.compile(rf"{_NUMBER}(?:,{_NUMBER})*", re.ASCII)
_PAIR = re.compile(r"(\d{1,9}),(\d{1,9})", re.ASCII)


def samples(text: str) -> tuple[SocketSample, ...]:
    """The samples in order of time; at least one. Raises Damaged for anything else."""
    lines = text.splitlines()
    names = lines[0].split(",") if lines else []
    if tuple(names[: len(SAMPLED)]) != SAMPLED or len(set(names)) != len(names):
        raise Damaged(f"samples of a socket begin with the columns {', '.join(SAMPLED)}")
    if len(lines) < 2:
        raise Damaged("no sample of the socket")
    return tuple(_sample(names, row, line) for line, row in enumerate(lines[1:], start=2))


def _sample(names: list[str], row: str, line: int) -> SocketSample:
    try:
        if _SHORT_NUMBERS.fullmatch(row):
            values = [int(word) if word else None for word in row.split(",")]
        else:
            values = [_number(word) for word in row.split(",")]
        columns = dict(zip(names, values, strict=True))
    except ValueError:
        raise Damaged(f"line {line}: whole numbers expected: {row[:60]!r}") from None
    sampled = {name: columns.pop(name) for name in SAMPLED}
    window = sampled.pop("rcv_wnd")
    present = {name: value for name, value in sampled.items() if value is not None}
    if len(present) < len(sampled) or window is None:
        raise Damaged(f"line {line}: a column of the socket is empty")
    return SocketSample(
        **present, rcv_wnd=None if window == NO_WINDOW else window, counters=columns
    )


def _number(word: str) -> int | None:
    if not word:
        return None
    if len(word) > 20 or not (word.isascii() and word.removeprefix("-").isdecimal()):
        raise ValueError(word)
    number = int(word)
    if abs(number) >= 2**63:
        raise ValueError(word)
    return number


def truesizes(text: str) -> tuple[tuple[int, int], ...]:
    """Payloads, and the memory that the kernel charged for a packet with each; at least one.
    Raises Damaged for anything else."""
    header, *lines = text.splitlines() or [""]
    matches = [_PAIR.fullmatch(line) for line in lines]
    pairs = tuple((int(match[1]), int(match[2])) for match in matches if match)
    larger = all(payload < truesize for payload, truesize in pairs)
    if header != TRUESIZES or not pairs or len(pairs) < len(lines) or not larger:
        raise Damaged("truesizes are lines of a payload and of a larger memory, both in bytes")
    return pairs
