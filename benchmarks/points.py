"""The points at which the model of a bulk transfer is tested: fixed sets, one seed per set.

    python3 benchmarks/points.py --check      # the files are those of this program
    python3 benchmarks/points.py --write

A point is a link, a kernel, two socket buffers, a segment size and a size of a write. The points
are those of a Sobol sequence, which covers the space more evenly than random points do, with a
random digital shift per dimension. They are generated once and stored (`points-SET.csv`). The model
was written before any point was measured, and set a was used to find its faults. Sets b and c were
measured once each, c after the faults that b showed had been corrected. The sets wget and discard
are downloads from nginx; both were used to find faults. The set fresh, also downloads by wget, was
drawn after the model's rules had been written. So was the set queues: downloads through a queue
that is shorter than the BDP.

Source of the direction numbers: S. Joe and F. Y. Kuo, Constructing Sobol sequences with better
two-dimensional projections, SIAM J. Sci. Comput. 30, 2008 (new-joe-kuo-6.21201).
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from dataclasses import MISSING, asdict, dataclass, fields, replace
from math import exp, log
from pathlib import Path
from random import Random
from typing import Any, get_type_hints

from labs.experiments.buffers.settings import DISCARD, WGET
from labs.guest.testbed.link import FRAME_BYTES
from labs.guest.units import KIB, MB, MIB, bytes_carried

FOLDER = Path(__file__).resolve().parent
SETS = {
    "a": (208, 20261122),
    "b": (104, 51015),
    "c": (104, 71117),
    "wget": (104, 280416),
    "discard": (104, 411802),
    "fresh": (104, 630933),
    "queues": (40, 271107),
}
"""The number of points of each set, and its seed."""
CLIENTS = {"wget": WGET, "discard": DISCARD, "fresh": WGET, "queues": DISCARD}
"""The client of each set of downloads from nginx."""
LINKS = (
    (7.0, 90.0, "6.1", 64),
    (55.0, 180.0, "6.12", 358),
    (60.0, 150.0, "6.1", 256),
    (120.0, 450.0, "6.1", 1126),
    (200.0, 12.0, "6.12", 128),
    (300.0, 35.0, "6.1", 512),
    (940.0, 1.3, "6.1", 205),
    (2500.0, 4.0, "6.12", 512),
)
"""The set `links`: rate, RTT, kernel and the request for a buffer in KiB. Each is measured with
automatic buffers, with the send buffer alone, and with both. Formulas for the steady state fail at
four of them, where the send buffer is small and the RTT is long."""
NAMES = (*SETS, "links")

RATE_MBIT, RTT_MS = (1.0, 10_000.0), (0.5, 500.0)
KERNELS = ("6.1", "6.12", "7.2")
DOWNLOAD_KERNELS = ("5.10", *KERNELS)
READ_BYTES = (4 * KIB, 64 * KIB, MIB)
"""What a client that discards requests per read: a page, what wget requests, and more than most
windows."""
MSS_BYTES = (1448, 1012, 524)
"""Payload per segment: of the path, and with iperf3 -M 1024 and -M 536, less 12 of timestamps."""
WHOLE_SEGMENTS = 16
LARGE_WRITE_BYTES = 128 * KIB
ODD_WRITE_BYTES = (3_000, 40_000)
AUTOMATIC_SHARE = 0.375
"""The share of the points at which a buffer is automatic."""
BUFFER_LOG2_BDP = (-4.0, 2.0)
BUFFER_BYTES = (16 * KIB, 64 * MIB)
AUTOMATIC_BYTES = 4 * MIB
"""The limit of an automatic send buffer (tcp_wmem[2]); that of a receive buffer is higher."""
ROUND_TRIPS = 30
TRANSFER_BYTES = (2 * MB, 128 * MB)
QUEUE_PACKETS = 1_000_000
"""The queue of the link: more than any buffer here holds, so that no packet is dropped."""
QUEUED_RATE_MBIT, QUEUED_RTT_MS = (5.0, 500.0), (10.0, 200.0)
QUEUED_SHARE = (1 / 16, 1.0)
"""The queue of a point of the set `queues`, as a share of the BDP, and at least this long."""
LEAST_QUEUED_PACKETS = 8
QUEUED_S, QUEUED_ROUND_TRIPS, QUEUED_MOST_BYTES = 20, 150, 24 * MB

BITS = 32
DIRECTIONS: tuple[tuple[int, int, tuple[int, ...]], ...] = (
    (1, 0, (1,)),
    (2, 1, (1, 3)),
    (3, 1, (1, 3, 1)),
    (3, 2, (1, 1, 1)),
    (4, 1, (1, 1, 3, 3)),
    (4, 4, (1, 3, 5, 13)),
    (5, 2, (1, 1, 5, 5, 17)),
)
"""Degree and coefficients of the primitive polynomial, and the first numbers, from the second
dimension on; the first one is the van der Corput sequence."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """A point. `sndbuf_kib` and `rcvbuf_kib` are requests: the kernel grants twice as much; 0 is an
    automatic buffer. `mss_bytes` is payload per segment. `client` is empty for a transfer by
    iperf3, or what downloads from nginx (the lab `buffers`), `read_bytes` per read; with
    `setsockopt` both programs set their buffers themselves, otherwise sysctls do."""

    name: str
    rate_mbit: float
    rtt_ms: float
    kernel: str
    mss_bytes: int
    sndbuf_kib: int
    rcvbuf_kib: int
    write_bytes: int
    transfer_bytes: int
    queue_packets: int
    client: str = ""
    read_bytes: int = 0
    setsockopt: bool = False
    shaped_at: str = "server"


def directions(degree: int, coefficients: int, first: tuple[int, ...]) -> list[int]:
    """The direction numbers of one dimension, as fractions of 2^BITS."""
    numbers = [value << (BITS - 1 - index) for index, value in enumerate(first)]
    for index in range(degree, BITS):
        value = numbers[index - degree] ^ (numbers[index - degree] >> degree)
        for term in range(1, degree):
            if coefficients >> (degree - 1 - term) & 1:
                value ^= numbers[index - term]
        numbers.append(value)
    return numbers


def sobol(count: int, shift: tuple[int, ...]) -> Iterator[tuple[float, ...]]:
    """The first points of the Sobol sequence in [0, 1), each dimension combined with its shift."""
    by_dimension = [[1 << (BITS - 1 - bit) for bit in range(BITS)]]
    by_dimension += [directions(*polynomial) for polynomial in DIRECTIONS]
    state = [0] * len(by_dimension)
    for index in range(count):
        yield tuple((value ^ moved) / 2**BITS for value, moved in zip(state, shift, strict=True))
        lowest_zero = (~index & (index + 1)).bit_length() - 1
        for dimension, numbers in enumerate(by_dimension):
            state[dimension] ^= numbers[lowest_zero]


def generated(name: str) -> tuple[Point, ...]:
    """The points of a set."""
    if name == "links":
        return tuple(linked())
    count, seed = SETS[name]
    draw = Random(seed)
    shift = tuple(draw.getrandbits(BITS) for _ in range(len(DIRECTIONS) + 1))
    drawn = enumerate(sobol(count, shift))
    if name == "queues":
        return tuple(queued(f"{name}-{index:03d}", values) for index, values in drawn)
    if name in CLIENTS:
        return tuple(
            downloaded(CLIENTS[name], f"{name}-{index:03d}", values) for index, values in drawn
        )
    return tuple(point(f"{name}-{index:03d}", values) for index, values in drawn)


def linked() -> Iterator[Point]:
    """The points of the set `links`."""
    for rate_mbit, rtt_ms, kernel, buffer_kib in LINKS:
        pairs = {"auto": (0, 0), "sender": (buffer_kib, 0), "both": (buffer_kib, buffer_kib)}
        for ends, (sndbuf_kib, rcvbuf_kib) in pairs.items():
            yield Point(
                name=f"links-{rate_mbit:g}-{rtt_ms:g}-{ends}".replace(".", "p"),
                rate_mbit=rate_mbit,
                rtt_ms=rtt_ms,
                kernel=kernel,
                mss_bytes=MSS_BYTES[0],
                sndbuf_kib=sndbuf_kib,
                rcvbuf_kib=rcvbuf_kib,
                write_bytes=LARGE_WRITE_BYTES,
                transfer_bytes=transferred(
                    bytes_carried(rate_mbit, rtt_ms), sndbuf_kib, rcvbuf_kib
                ),
                queue_packets=QUEUE_PACKETS,
            )


def point(name: str, values: tuple[float, ...]) -> Point:
    """The point of the space that eight numbers from 0 to 1 select."""
    rate, rtt, sndbuf, rcvbuf, mss, kernel, pattern, odd = values
    rate_mbit = float(f"{between(rate, RATE_MBIT):.4g}")
    rtt_ms = round(between(rtt, RTT_MS), 3)
    mss_bytes = MSS_BYTES[int(mss * len(MSS_BYTES))]
    bdp_bytes = bytes_carried(rate_mbit, rtt_ms)
    sndbuf_kib, rcvbuf_kib = requested_kib(sndbuf, bdp_bytes), requested_kib(rcvbuf, bdp_bytes)
    return Point(
        name=name,
        rate_mbit=rate_mbit,
        rtt_ms=rtt_ms,
        kernel=KERNELS[int(kernel * len(KERNELS))],
        mss_bytes=mss_bytes,
        sndbuf_kib=sndbuf_kib,
        rcvbuf_kib=rcvbuf_kib,
        write_bytes=written(pattern, odd, mss_bytes),
        transfer_bytes=transferred(bdp_bytes, sndbuf_kib, rcvbuf_kib),
        queue_packets=QUEUE_PACKETS,
    )


def downloaded(client: str, name: str, values: tuple[float, ...]) -> Point:
    """The download from nginx that eight numbers from 0 to 1 select; wget sets no buffer, and
    chooses itself how much it reads."""
    *_, kernel, setter, read = values
    drawn = point(name, values)
    discards = client == DISCARD
    return replace(
        drawn,
        kernel=DOWNLOAD_KERNELS[int(kernel * len(DOWNLOAD_KERNELS))],
        mss_bytes=MSS_BYTES[0],
        write_bytes=0,
        client=client,
        read_bytes=READ_BYTES[int(read * len(READ_BYTES))] if discards else 0,
        setsockopt=discards and setter < 0.5,
    )


def queued(name: str, values: tuple[float, ...]) -> Point:
    """The download through a short queue that eight numbers from 0 to 1 select: at the sender,
    where it counts what is handed down in one piece, or at a router, where it counts segments."""
    rate, rtt, share, where, read, kernel, *_ = values
    rate_mbit = float(f"{between(rate, QUEUED_RATE_MBIT):.4g}")
    rtt_ms = round(between(rtt, QUEUED_RTT_MS), 3)
    bdp_bytes = bytes_carried(rate_mbit, rtt_ms)
    packets = round(bdp_bytes / FRAME_BYTES * between(share, QUEUED_SHARE))
    most_bytes = min(bytes_carried(rate_mbit, 1e3 * QUEUED_S), QUEUED_ROUND_TRIPS * bdp_bytes)
    return Point(
        name=name,
        rate_mbit=rate_mbit,
        rtt_ms=rtt_ms,
        kernel=DOWNLOAD_KERNELS[int(kernel * len(DOWNLOAD_KERNELS))],
        mss_bytes=MSS_BYTES[0],
        sndbuf_kib=0,
        rcvbuf_kib=0,
        write_bytes=0,
        transfer_bytes=min(max(round(most_bytes), TRANSFER_BYTES[0]), QUEUED_MOST_BYTES),
        queue_packets=max(packets, LEAST_QUEUED_PACKETS),
        client=DISCARD,
        read_bytes=READ_BYTES[int(read * len(READ_BYTES))],
        shaped_at="server" if where < 0.5 else "router",
    )


def between(share: float, limits: tuple[float, float]) -> float:
    """A value between two limits, on a logarithmic scale."""
    low, high = limits
    return exp(log(low) + share * (log(high) - log(low)))


def requested_kib(share: float, bdp_bytes: float) -> int:
    """The request for a buffer of 2^u BDP in whole KiB; 0 if the buffer is automatic."""
    if share < AUTOMATIC_SHARE:
        return 0
    low, high = BUFFER_LOG2_BDP
    exponent = low + (share - AUTOMATIC_SHARE) / (1 - AUTOMATIC_SHARE) * (high - low)
    granted = min(max(bdp_bytes * 2**exponent, BUFFER_BYTES[0]), BUFFER_BYTES[1])
    return round(granted / 2 / KIB)


def written(pattern: float, odd: float, mss_bytes: int) -> int:
    """The size of a write: whole segments, 128 KiB, or a size that is no multiple of the MSS."""
    size = round(between(odd, ODD_WRITE_BYTES))
    sizes = (WHOLE_SEGMENTS * mss_bytes, LARGE_WRITE_BYTES, size + (size % mss_bytes == 0))
    return sizes[int(pattern * len(sizes))]


def transferred(bdp_bytes: float, sndbuf_kib: int, rcvbuf_kib: int) -> int:
    """The bytes of a transfer that lasts about 30 round trips, within limits."""
    buffers = [2 * kib * KIB or AUTOMATIC_BYTES for kib in (sndbuf_kib, rcvbuf_kib)]
    least, most = TRANSFER_BYTES
    return min(max(round(ROUND_TRIPS * min(bdp_bytes, *buffers)), least), most)


def file_of(name: str) -> Path:
    """The file of a set."""
    return FOLDER / f"points-{name}.csv"


def read(name: str) -> tuple[Point, ...]:
    """The stored points of a set."""
    kinds = get_type_hints(Point)
    with file_of(name).open(newline="") as lines:
        return tuple(
            Point(**{column: parsed(kinds[column], value) for column, value in row.items()})
            for row in csv.DictReader(lines)
        )


def parsed(kind: type, text: str) -> Any:
    """A value of a stored point."""
    return text == str(True) if kind is bool else kind(text)


def write(name: str) -> None:
    """Store the points of a set; columns of downloads only if it has some."""
    columns = [field.name for field in fields(Point) if name in CLIENTS or field.default is MISSING]
    with file_of(name).open("w", newline="") as out:
        rows = csv.DictWriter(out, columns, extrasaction="ignore", lineterminator="\n")
        rows.writeheader()
        rows.writerows(asdict(row) for row in generated(name))


def main(words: list[str]) -> int:
    """Write the files, or check them."""
    if words == ["--write"]:
        for name in NAMES:
            write(name)
        return 0
    if words == ["--check"]:
        changed = [name for name in NAMES if read(name) != generated(name)]
        print(f"differ: {', '.join(changed)}" if changed else "the files are those of this program")
        return 1 if changed else 0
    print("allowed: --check or --write", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
