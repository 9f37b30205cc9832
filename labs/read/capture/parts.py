"""The table of a capture in parts of whole connections, so that memory suffices for any file.

A small capture is one part. The rows of a larger one are kept in a temporary file meanwhile, which
has its size: whoever explains a connection needs all of it at once.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from labs.drive.record.disk import written_to
from labs.read.capture.connection_tracking import connection_rows, number_of
from labs.read.capture.reader import Array, Reader, opened
from labs.read.capture.segment_table import Columns, Segments

ROWS_IN_MEMORY = 1 << 17
GROUPS: Final = 64
"""Connections are divided among as many groups; a part consists of whole groups."""
OMITTED: Final = ("offset", *(f"sack_{side}_{n}" for side in ("left", "right") for n in (3, 4)))
"""Columns of the table that the parts of a large capture lack."""


@dataclass(frozen=True, eq=False)
class Parts:
    """A capture that was read: its connections as rows, and the tables of their segments.

    The labels of a table are the numbers of its rows in the capture.
    """

    reader: Reader
    connections: list[dict[str, Any]]
    tables: Iterator[Segments]


@contextmanager
def whole_connections(path: str | Path, connection: int | str | None = None) -> Iterator[Parts]:
    """Read a capture for whoever needs whole connections, or only one (see `number_of`).

    Raises what `labs.capture.read` raises, BadInput for a connection that it does not have.
    """
    with opened(path, None, Reader) as reader:
        columns = Columns(ROWS_IN_MEMORY)
        if not reader.fill(columns):
            yield _chosen(reader, connection, iter((columns.segments(),)))
            return
        folder = Path(tempfile.gettempdir())
        with (
            written_to(folder, "name another folder in TMPDIR"),
            tempfile.TemporaryFile(prefix="labs-segments-", dir=folder) as file,
        ):
            kept = _Kept(file, columns)
            kept.add(columns)
            more = True
            while more:
                columns = Columns(ROWS_IN_MEMORY)
                more = reader.fill(columns)
                kept.add(columns)
            del columns
            yield _chosen(reader, connection, kept.tables())


def _chosen(reader: Reader, connection: int | str | None, tables: Iterator[Segments]) -> Parts:
    rows = connection_rows(reader.connections)
    if connection is None:
        return Parts(reader, rows, tables)
    number = number_of(rows, connection)
    chosen = (table[table["connection"] == number] for table in tables)
    return Parts(reader, rows, (table for table in chosen if len(table)))


class _Kept:
    """Rows in a file: of each batch one column after the other, its rows by group."""

    def __init__(self, file: BinaryIO, columns: Columns) -> None:
        self._file = file
        kinds = {name: array.dtype for name, array in columns.arrays() if name not in OMITTED}
        self._kinds = {**kinds, "row": np.dtype(np.int64)}
        self._batches: list[tuple[int, Array]] = []  # offset, and where each group begins
        self._count = 0

    def add(self, columns: Columns) -> None:
        arrays = dict(columns.arrays())
        group = (arrays["connection"] % GROUPS).astype(np.uint8)
        order = np.argsort(group, kind="stable")
        self._batches.append(
            (self._file.tell(), np.searchsorted(group[order], np.arange(GROUPS + 1)))
        )
        for name in self._kinds:
            rows = self._count + order if name == "row" else arrays[name].take(order)
            self._file.write(rows.data)
        self._count += len(order)

    def tables(self) -> Iterator[Segments]:
        """The table in parts, each of as many groups as the memory is meant for."""
        sizes = np.sum([np.diff(edges) for _, edges in self._batches], axis=0).tolist()
        first = rows = 0
        for group, size in enumerate(sizes):
            if rows and rows + size > ROWS_IN_MEMORY:
                yield self._table(first, group, rows)
                first, rows = group, 0
            rows += size
        if rows:
            yield self._table(first, GROUPS, rows)

    def _table(self, first: int, last: int, rows: int) -> Segments:
        """The groups `first` to `last` - 1, which have that many rows."""
        made = {name: np.empty(rows, kind) for name, kind in self._kinds.items()}
        begin = 0
        for offset, edges in self._batches:
            start, end, count = int(edges[first]), int(edges[last]), int(edges[-1])
            for array in made.values():
                self._file.seek(offset + start * array.itemsize)
                self._file.readinto(array[begin : begin + end - start].data)  # type: ignore[attr-defined]
                offset += count * array.itemsize
            begin += end - start
        return Segments(made, made.pop("row"))
