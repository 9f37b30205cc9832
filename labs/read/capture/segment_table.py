"""The table of segments that the reader fills, and the counts of packets without a row.

The places in both are constants of the compiled functions, which only write to arrays. This module
also checks the memory that the table needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, get_type_hints, overload

import numpy as np

from labs.errors import Missing
from labs.guest.units import MB
from labs.read.native.compiled import (
    NUMBERS,
    Arrays,
    Bytes,
    Int8s,
    Int32s,
    Int64s,
    Uint16s,
    Uint32s,
)

if TYPE_CHECKING:
    import pandas as pd


Array = np.ndarray[Any, Any]

# The counts, in an array of int64.
PACKETS = 0
SEGMENTS = 1
LINK = 2
NOT_IP = 3
NOT_TCP = 4
LATER_FRAGMENT = 5
FIRST_FRAGMENT = 6
SHORT = 7
DAMAGED_HEADER = 8
NESTED = 9
NO_TIME = 10
ABSURD_TIME = 11
BACKWARDS = 12
LAST_NS = 13  # the time of the record before, for BACKWARDS
CUT = 14  # bytes of a last record that ends early
DAMAGED = 15  # 1 + the offset from which nothing could be read
TUNNELLED = 16
ICMP_ERROR = 17
ENCRYPTED = 18
NO_PACKET = 19  # blocks of pcapng that are numbered like packets
UNREAD = 20
UNREAD_KIND = 21  # of the last layer that is not read: a key of UNREAD_LAYERS
LINK_KIND = 22  # 1 + the last link type that is not read
COUNTS = 23

UNREAD_TYPES = (0x88E7, 0x8926, 0x893F, 0x8909, 0x22F3, 0x894F, 0x8870, 0x880B, 0x883E)
UNREAD_PORTS = (1701, 3544, 4341, 4754, 4790, 6080, 6635, 37008)
UNREAD_PROTOCOLS = (51, 94, 97, 115, 137)
UNREAD_LAYERS = dict(
    zip(
        (*UNREAD_TYPES, *UNREAD_PORTS, *UNREAD_PROTOCOLS),
        (
            *("802.1ah", "a VN-tag", "an E-tag", "Cisco metadata", "TRILL", "NSH", "LLC in GRE"),
            *("PPTP", "WCCP", "L2TP", "Teredo", "LISP", "GRE in UDP", "VXLAN-GPE", "GUE"),
            *("MPLS in UDP", "TZSP", "AH", "IPIP of type 94", "EtherIP", "L2TP", "MPLS in IP"),
        ),
        strict=True,
    )
)
"""Layers by EtherType, UDP port or IP protocol, which have no number in common."""
UNREAD_LINKS = {
    **{6: "token ring", 10: "FDDI", 11: "ATM", 51: "PPP over Ethernet", 104: "Cisco HDLC"},
    **{107: "frame relay", 109: "ENC", 117: "PFLOG", 119: "Prism", 138: "IEEE 1394", 163: "AVS"},
    **{192: "PPI", 204: "PPP with direction", 239: "NFLOG", 240: "NetAnalyzer"},
}

# A count, whether its packets have no row, and its description.
WORDS: tuple[tuple[str, int, bool, str], ...] = (
    ("other_link_type", LINK, True, "of a link type that is not read"),
    ("unread_layer", UNREAD, True, "inside a layer that is not read"),
    ("not_ip", NOT_IP, True, "that carry neither IPv4 nor IPv6"),
    ("not_tcp", NOT_TCP, True, "of a protocol other than TCP"),
    ("icmp_errors", ICMP_ERROR, True, "with ICMP errors about TCP packets"),
    (
        "tunnelled",
        TUNNELLED,
        False,
        "whose TCP is inside a tunnel or a tag of a provider: addresses and numbers are the inner "
        "ones",
    ),
    (
        "encrypted",
        ENCRYPTED,
        True,
        "that are encrypted (ESP, WireGuard, OpenVPN, MACsec, 802.11). Capture on the tunnel's own "
        "interface",
    ),
    ("later_fragments", LATER_FRAGMENT, True, "of later fragments, without a TCP header"),
    (
        "first_fragments",
        FIRST_FRAGMENT,
        False,
        "of first fragments: included with the payload of this fragment only",
    ),
    ("headers_cut", SHORT, True, "whose headers were not captured whole"),
    ("headers_damaged", DAMAGED_HEADER, True, "whose headers have impossible lengths"),
    ("nested_too_deep", NESTED, True, "with too many nested headers"),
    ("without_time", NO_TIME, False, "whose record has no time (0 is used)"),
    (
        "absurd_time",
        ABSURD_TIME,
        False,
        "with an invalid time: a fraction of more than a second, or after the year 2115",
    ),
    ("backwards", BACKWARDS, False, "that are earlier than the packet before them"),
)


@dataclass(frozen=True)
class Remarks:
    """What a capture contains besides its TCP segments, by name in `counts` (without zeros).

    `packets` is the number of records read, `segments` those with a row. `damaged_at` is the offset
    in the uncompressed file from which nothing could be read, or None; `cut_bytes` is the size of a
    last record that ends early. `unread` names a layer and a link type that are not read, by
    the name of their count. `lines` has one line per remark.
    """

    packets: int
    segments: int
    counts: dict[str, int]
    cut_bytes: int
    damaged_at: int | None
    unread: dict[str, str] = field(default_factory=dict)

    @property
    def lines(self) -> tuple[str, ...]:
        sentences = [
            f"{_describe_count(self.counts[name], words)}{self._example(name)}"
            f"{'; no row' if skipped else ''}"
            for name, _, skipped, words in WORDS
            if name in self.counts
        ]
        if self.cut_bytes:
            sentences.append(f"the last record is truncated: {self.cut_bytes:,} bytes were ignored")
        if self.damaged_at is not None:
            sentences.append(f"damaged from byte {self.damaged_at:,} on: the rest was not read")
        return tuple(sentences)

    def _example(self, name: str) -> str:
        return f", such as {self.unread[name]}" if name in self.unread else ""

    def as_json(self) -> dict[str, object]:
        return {
            "packets": self.packets,
            "segments": self.segments,
            **self.counts,
            "cut_bytes": self.cut_bytes,
            "damaged_at": self.damaged_at,
        }


def _describe_count(count: int, words: str) -> str:
    if count == 1:
        return (
            f"1 packet {words.replace('that are', 'that is').replace('that carry', 'that carries')}"
        )
    return f"{count:,} packets {words}"


def remarks(counted: Iterable[int]) -> Remarks:
    """The counts of a reader as remarks."""
    counts = [int(count) for count in counted]
    return Remarks(
        packets=counts[PACKETS] - counts[NO_PACKET],
        segments=counts[SEGMENTS],
        counts={name: counts[place] for name, place, _, _ in WORDS if counts[place]},
        cut_bytes=counts[CUT],
        damaged_at=counts[DAMAGED] - 1 if counts[DAMAGED] else None,
        unread=_unread(counts[UNREAD_KIND], counts[LINK_KIND] - 1 if counts[LINK] else -1),
    )


def _unread(layer: int, link: int) -> dict[str, str]:
    made = {}
    if layer:
        made["unread_layer"] = UNREAD_LAYERS[layer]
    if link >= 0:
        name = UNREAD_LINKS.get(link)
        made["other_link_type"] = f"number {link}" if name is None else f"{name} ({link})"
    return made


FIN, SYN, RST, PSH, ACK, URG, ECE, CWR = (1 << bit for bit in range(8))
"""Bits of the column `flags`; RFC 9293 section 3.1."""

OTHER, TLS_HANDSHAKE, TLS_DATA, HTTP_REQUEST, HTTP_RESPONSE = range(5)
"""What the payload of a segment begins with; the column `content`."""

SACK_EDGES = 8  # left 1, right 1...
SACK_COLUMNS = tuple(
    f"sack_{side}_{block + 1}" for block in range(SACK_EDGES // 2) for side in ("left", "right")
)


class Columns(Arrays):
    """Arrays for `capacity` rows, of which the first `rows` are filled, in the order of the table;
    `sack` has the columns of the edges of SACK blocks, one row each."""

    time_ns: Int64s
    connection: Int32s
    direction: Int8s
    seq: Uint32s
    ack: Uint32s
    flags: Uint16s
    window: Uint16s
    window_bytes: Int32s
    payload_bytes: Int32s
    seq_rel: Int64s
    ack_rel: Int64s
    mss: Uint16s
    tsval: Int64s
    tsecr: Int64s
    sack_blocks: Bytes
    sack: Uint32s
    ip_id: Int32s
    ttl: Bytes
    content: Int8s
    frame: Int64s
    offset: Int64s

    def __init__(self, capacity: int) -> None:
        self.capacity, self.rows = capacity, 0
        # Zeros from the system: pages that are never written to (SACK edges) take no memory.
        for name, kind in KINDS.items():
            shape = (SACK_EDGES, capacity) if name == "sack" else capacity
            setattr(self, name, np.zeros(shape, kind))

    def grown(self, capacity: int) -> Columns:
        """The same rows in larger arrays."""
        made = Columns(capacity)
        made.rows = self.rows
        for name in KINDS:
            vars(made)[name][..., : self.rows] = vars(self)[name][..., : self.rows]
        return made

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Each column by its name, in the table's order: views, not copies."""
        for name in KINDS:
            column = vars(self)[name][..., : self.rows]
            yield from (
                zip(SACK_COLUMNS, column, strict=True) if name == "sack" else ((name, column),)
            )

    def segments(self) -> Segments:
        """The rows as a table that needs no pandas, without a copy."""
        return Segments(dict(self.arrays()), np.arange(self.rows))

    def table(self) -> pd.DataFrame:
        """The rows as a pandas table, without a copy."""
        import pandas as pd  # noqa: PLC0415  slow to load

        return pd.DataFrame(dict(self.arrays()), copy=False)


KINDS: dict[str, np.dtype[Any]] = {
    name: np.dtype(NUMBERS[kind].code) for name, kind in get_type_hints(Columns).items()
}
ROW_BYTES = sum(
    kind.itemsize * (SACK_EDGES if name == "sack" else 1) for name, kind in KINDS.items()
)


@dataclass(frozen=True, eq=False)
class Segments:
    """The table as arrays by column, for whoever needs no pandas, which is slow to load; `index`
    are the labels of its rows."""

    columns: dict[str, Array]
    index: Array

    def __len__(self) -> int:
        return len(self.index)

    @overload
    def __getitem__(self, wanted: str) -> Array: ...
    @overload
    def __getitem__(self, wanted: Array) -> Segments: ...
    def __getitem__(self, wanted: str | Array) -> Array | Segments:
        """A column, or the rows that are true in `wanted`."""
        if isinstance(wanted, str):
            return self.columns[wanted]
        return Segments(
            {name: column[wanted] for name, column in self.columns.items()}, self.index[wanted]
        )


Table: TypeAlias = "pd.DataFrame | Segments"
"""A table of segments: `numpy.asarray(table[NAME])` is a column of either."""

MEMINFO = Path("/proc/meminfo")
PROCESS = Path("/proc/self")
ADDRESS_SPACE = re.compile(r"Max address space +(\d+) ")
VIRTUAL_MEMORY = re.compile(r"VmSize:\s+(\d+) kB")
CGROUP = Path("/sys/fs/cgroup")
IN_PARTS = "Extract a part of the capture: tcpdump -r FILE -w PART host ADDRESS"


def available_bytes() -> int | None:
    """The memory available without swapping and within the limits of the container and of this
    process; None if the system reports none of these (not Linux)."""
    every = (_in_the_system(), _in_the_container(), _in_the_process())
    return min((limit for limit in every if limit is not None), default=None)


def _in_the_system() -> int | None:
    try:
        for line in MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def _in_the_container() -> int | None:
    """By the topmost control group visible in a container (cgroup v2); its file cache can be
    reclaimed."""
    try:
        most = (CGROUP / "memory.max").read_text().strip()
        used = int((CGROUP / "memory.current").read_text())
        stat = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
    except OSError:
        return None
    return max(0, int(most) - used + int(stat["inactive_file"])) if most.isdigit() else None


def _in_the_process() -> int | None:
    """By the limit on its address space (`ulimit -v`), if any."""
    try:
        limits, status = (PROCESS / "limits").read_text(), (PROCESS / "status").read_text()
    except OSError:
        return None
    most, used = ADDRESS_SPACE.search(limits), VIRTUAL_MEMORY.search(status)
    return None if most is None or used is None else max(0, int(most[1]) - 1024 * int(used[1]))


def must_fit(wanted_bytes: int, what: str, instead: str, free_bytes: int | None = None) -> None:
    """Raise Missing if `what` takes more memory than is available (`free_bytes`, or what the system
    has); `instead` is the next step."""
    free = available_bytes() if free_bytes is None else free_bytes
    if free is not None and wanted_bytes > free:
        raise Missing(
            f"{what} take {wanted_bytes / MB:,.0f} MB of memory, and "
            f"{free / MB:,.0f} MB are available. {instead}"
        )
