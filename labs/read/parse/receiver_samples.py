"""What `labs/drive/programs/hold.py` wrote about its own socket: one row per data segment.

A line of column names, then one line of whole numbers per row. A counter that the kernel lacks is
empty.
"""

from __future__ import annotations

import re

from labs.errors import Damaged

COLUMNS = (
    "time_ns",
    "data_segs_in",
    "rcvq_bytes",
    "rmem_alloc",
    "rcvbuf",
    "rcv_ssthresh",
    "rcv_mss",
    "advmss",
    "rcv_wnd",
    "read_bytes",
)
"""The columns that every file has; it may have others."""
_NAME = re.compile(r"[A-Za-z_]\w{0,39}", re.ASCII)
_VALUE = re.compile(r"-?\d{1,20}", re.ASCII)


def rows(text: str) -> list[dict[str, int | None]]:
    """The rows of the file by column name; None for a value that the kernel does not have."""
    lines = text.splitlines()
    names = lines[0].split(",") if lines else []
    if not all(_NAME.fullmatch(name) for name in names) or len(set(names)) < len(names):
        raise Damaged("line 1: not a list of column names")
    lacking = [name for name in COLUMNS if name not in names]
    if lacking:
        raise Damaged(f"line 1: no column {lacking[0]}")
    found: list[dict[str, int | None]] = []
    for number, line in enumerate(lines[1:], start=2):
        words = line.split(",")
        if len(words) != len(names):
            raise Damaged(f"line {number}: {len(words)} values, expected {len(names)}")
        row: dict[str, int | None] = {}
        for name, word in zip(names, words, strict=True):
            if not _VALUE.fullmatch(word) and (word or name in COLUMNS):
                raise Damaged(f"line {number}: {name} is {word[:40]!r}, expected a whole number")
            row[name] = int(word) if word else None
        found.append(row)
    return found
