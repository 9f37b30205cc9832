"""What is counted while a capture is read: where each count stands, and how it is said.

The places are constants of the compiled functions, which add to one array of int64.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

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
DAMAGED = 15  # 1 + the offset from which on nothing could be read
TUNNELLED = 16
COUNTS = 17

# A count, whether its packets have no row, and what is said of it.
WORDS: tuple[tuple[str, int, bool, str], ...] = (
    ("other_link_type", LINK, True, "of a link type that is not read"),
    ("not_ip", NOT_IP, True, "that carry neither IPv4 nor IPv6"),
    ("not_tcp", NOT_TCP, True, "of another protocol than TCP"),
    (
        "tunnelled",
        TUNNELLED,
        True,
        "whose TCP is inside a tunnel (IP in IP, GRE, VXLAN, Geneve), which is not read: "
        "capture on "
        "the tunnel's own interface, or remove the outer headers with editcap -C",
    ),
    ("later_fragments", LATER_FRAGMENT, True, "that are later fragments, without a TCP header"),
    (
        "first_fragments",
        FIRST_FRAGMENT,
        False,
        "that are first fragments: kept, with the payload of the fragment alone",
    ),
    ("headers_cut", SHORT, True, "captured too short for their headers"),
    ("headers_damaged", DAMAGED_HEADER, True, "whose headers give lengths that cannot be"),
    ("nested_too_deep", NESTED, True, "with more headers inside each other than are followed"),
    ("without_time", NO_TIME, False, "whose record has no time (taken as 0)"),
    (
        "absurd_time",
        ABSURD_TIME,
        False,
        "whose time is no time: a fraction of more than a second, or beyond the year 2262",
    ),
    ("backwards", BACKWARDS, False, "that are earlier than the packet before them"),
)


@dataclass(frozen=True)
class Remarks:
    """What a capture held beside its TCP segments, by name in `counts` (only what is not 0).

    `packets` are the records read, `segments` those with a row. `damaged_at` is the offset in the
    uncompressed file from which on nothing could be read, None if all could; `cut_bytes` the bytes
    of a last record that ends early. `lines` says all of it, a line a remark.
    """

    packets: int
    segments: int
    counts: dict[str, int]
    cut_bytes: int
    damaged_at: int | None

    @property
    def lines(self) -> tuple[str, ...]:
        said = [
            f"{self.counts[name]:,} packets {words}{'; no row' if skipped else ''}"
            for name, _, skipped, words in WORDS
            if name in self.counts
        ]
        if self.cut_bytes:
            said.append(f"the last record ends early: {self.cut_bytes:,} bytes left out")
        if self.damaged_at is not None:
            said.append(f"damaged from byte {self.damaged_at:,} on: nothing read beyond it")
        return tuple(said)

    def as_json(self) -> dict[str, object]:
        return {
            "packets": self.packets,
            "segments": self.segments,
            **self.counts,
            "cut_bytes": self.cut_bytes,
            "damaged_at": self.damaged_at,
        }


def remarks(counted: Iterable[int]) -> Remarks:
    """The counts of a reader as remarks."""
    found = [int(count) for count in counted]
    return Remarks(
        packets=found[PACKETS],
        segments=found[SEGMENTS],
        counts={name: found[place] for name, place, _, _ in WORDS if found[place]},
        cut_bytes=found[CUT],
        damaged_at=found[DAMAGED] - 1 if found[DAMAGED] else None,
    )
