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
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import numpy as np

from labs.drive.record.disk import written_to
from labs.read.capture.connection_tracking import connection_rows, number_of
from labs.read.capture.reader import Array, Reader, opened
from labs.read.capture.segment_table import Columns

if TYPE_CHECKING:
    import pandas as pd

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
    tables: Iterator[pd.DataFrame]


@contextmanager
def whole_connections(path: str | Path, connection: int | str | None = None) -> Iterator[Parts]:
    """Read a capture for whoever needs whole connections, or only one (see `number_of`).

    Raises what `labs.capture.read` raises, BadInput for a connection that it does not have.
    """
    with opened(path, None, Reader) as reader:
        columns = Columns(ROWS_IN_MEMORY)
        if not reader.fill(columns):
            yield _chosen(reader, connection, iter((columns.table(),)))
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


def _chosen(reader: Reader, connection: int | str | None, tables: Iterator[pd.DataFrame]) -> Parts:
    rows = connection_rows(reader.connections)
    if connection is None:
        return Parts(reader, rows, tables)
    number = number_of(rows, connection)
    own = (table[table["connection"] == number] for table in tables)
    return Parts(reader, rows, (table for table in own if len(table)))


class _Kept:
    """Rows in a file, each group's together as far as they were added together."""

    def __init__(self, file: BinaryIO, columns: Columns) -> None:
        self._file = file
        kinds = [(name, array.dtype) for name, array in columns.arrays() if name not in OMITTED]
        self._kind = np.dtype([*kinds, ("row", np.int64)])
        self._pieces: list[list[tuple[int, int]]] = [[] for _ in range(GROUPS)]  # offset, rows
        self._count = 0

    def add(self, columns: Columns) -> None:
        arrays = dict(columns.arrays())
        group = arrays["connection"] % GROUPS
        order = np.argsort(group, kind="stable")
        rows = np.empty(len(order), self._kind)
        for name in self._kind.names or ():
            rows[name] = self._count + order if name == "row" else arrays[name][order]
        edges = np.searchsorted(group[order], np.arange(GROUPS + 1))
        for pieces, first, last in zip(self._pieces, edges[:-1], edges[1:], strict=True):
            if last > first:
                pieces.append((self._file.tell(), int(last - first)))
                self._file.write(rows[first:last].data)
        self._count += len(order)

    def tables(self) -> Iterator[pd.DataFrame]:
        """The table in parts, each of as many groups as the memory is meant for."""
        waiting: list[tuple[int, int]] = []
        for pieces in self._pieces:
            if waiting and sum(count for _, count in (*waiting, *pieces)) > ROWS_IN_MEMORY:
                yield self._table(waiting)
                waiting = []
            waiting += pieces
        if waiting:
            yield self._table(waiting)

    def _table(self, pieces: list[tuple[int, int]]) -> pd.DataFrame:
        import pandas as pd  # noqa: PLC0415  slow to load

        count = sum(count for _, count in pieces)
        made: dict[str, Array] = {
            name: np.empty(count, self._kind[name]) for name in self._kind.names or ()
        }
        begin = 0
        for offset, rows in pieces:
            self._file.seek(offset)
            found = np.frombuffer(self._file.read(rows * self._kind.itemsize), self._kind)
            for name, array in made.items():
                array[begin : begin + rows] = found[name]
            begin += rows
        labels = pd.Index(made.pop("row"))
        return pd.DataFrame(made, index=labels, copy=False)
