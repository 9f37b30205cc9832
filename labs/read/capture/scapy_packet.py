"""One record of a capture, found again by its row: its bytes, its number, and it in scapy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labs.errors import BadInput
from labs.read.capture.framing import BEGIN, END, LINK_TYPE, RECORD, RECORD_WORDS, TIME
from labs.read.capture.reader import Array, Reader, batches

if TYPE_CHECKING:
    import pandas as pd
    from scapy.packet import Packet

ROWS_AT_ONCE = 1 << 16
# What scapy must have loaded before it knows the link types that the reader knows.
LAYERS = ("l2", "inet", "inet6", "ppp")


@dataclass(frozen=True)
class Record:
    """A record as it stands in the file; `number` is Wireshark's frame.number, from 1."""

    number: int
    offset: int
    time_ns: int
    link_type: int
    data: bytes


class _Records(Reader):
    def pieces(self) -> Iterator[tuple[int, Array]]:
        """How many records came before, and some records, a row of framing's words each."""
        before = 0
        while self._walk():
            yield before, self._records[: self._last * RECORD_WORDS].reshape(-1, RECORD_WORDS)
            before += self._last

    def base(self) -> int:
        return self._base

    def data(self, words: Array) -> bytes:
        return self._buffer[int(words[BEGIN]) : int(words[END])].tobytes()


def records(path: str | Path, offsets: list[int]) -> list[Record]:
    """The records that begin at these offsets, in their order in the file.

    Raises what `labs.capture.read` raises for a file that cannot be read, BadInput for an offset
    at which no record begins.
    """
    wanted = np.unique(np.array(offsets, np.int64))
    found: list[Record] = []
    reader = _Records(path)
    try:
        for before, words in reader.pieces():
            at = words[:, RECORD] + reader.base()
            for place in np.flatnonzero(np.isin(at, wanted)).tolist():
                one = words[place]
                found.append(
                    Record(
                        before + place + 1,
                        int(at[place]),
                        int(one[TIME]),
                        int(one[LINK_TYPE]),
                        reader.data(one),
                    )
                )
            if len(found) == len(wanted):
                return found
    finally:
        reader.close()
    missing = sorted(set(wanted.tolist()) - {one.offset for one in found})
    raise BadInput(
        f"{path}: no record begins at byte {missing[0]}; take offsets from the table "
        "that labs.capture.read makes of this file"
    )


def offsets_of(path: str | Path, rows: list[int]) -> list[int]:
    """Where the records of these rows of the table begin. BadInput for a row it does not have."""
    left, found, have = set(rows), {}, 0
    for batch in batches(path, rows=ROWS_AT_ONCE):
        for row in sorted(row for row in left if have <= row < have + len(batch)):
            found[row] = int(batch["offset"].iloc[row - have])
        left -= set(found)
        have += len(batch)
        if not left:
            return [found[row] for row in rows]
    rows_there = f"rows 0 to {have - 1}" if have else "no rows"
    raise BadInput(f"{path} has no row {min(left)}; its table has {rows_there}")


def packet(path: str | Path, row: int | np.integer[Any] | pd.Series[Any]) -> Packet:
    """Open one row of a capture's table in scapy, with the right link layer.

    `row` is its label in the table of `labs.capture.read`, or the row itself (`table.loc[7]`),
    which is found without reading the others. The packet's `time` is the record's, in seconds.
    Raises what `read` raises, and BadInput for a row that the capture does not have.
    """
    from scapy.config import conf

    if isinstance(row, int | np.integer):
        offset = offsets_of(path, [int(row)])[0]
    else:
        offset = int(row["offset"])
    record = records(path, [offset])[0]
    for layer in LAYERS:
        import_module(f"scapy.layers.{layer}")
    opened: Packet = conf.l2types.num2layer.get(record.link_type, conf.raw_layer)(record.data)
    opened.time = record.time_ns / 1e9
    return opened
