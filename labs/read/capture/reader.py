"""Reads a capture file into the table of its TCP segments, at once or in batches."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from labs.errors import BadInput, Damaged, Missing
from labs.read.capture import connection_tracking as tracking
from labs.read.capture import pcap, segment_table, segments
from labs.read.capture.connection_tracking import Connection
from labs.read.capture.headers import Frame
from labs.read.capture.segment_table import (
    COUNTS,
    CUT,
    DAMAGED,
    IN_PARTS,
    LAST_NS,
    ROW_BYTES,
    SEGMENTS,
    Columns,
    available_bytes,
    must_fit,
)
from labs.read.capture.source import Pieces, open_source

if TYPE_CHECKING:
    import pandas as pd

    from labs.read.capture.segment_table import Remarks

Array = np.ndarray[Any, Any]
Kind = TypeVar("Kind", bound="Reader")
FRAMES_AT_ONCE = 1 << 13
FIRST_CONNECTIONS = 1 << 10
SCRATCH_ROWS = 1 << 14
SPARE_ROWS = 1 << 10
IN_PIECES = "Read it in parts with labs.capture.batches"
CONNECTION_BYTES = 500
"""Memory per row while the table of connections is made, besides its own 330; measured."""


class Reader:
    """A capture file being read: the position in it, and every connection so far.

    Opening raises BadInput if it is not a file, Damaged if it is not a capture (or is empty).
    """

    def __init__(self, path: str | Path, memory_bytes: int | None = None) -> None:
        self.path = Path(path)
        self._memory_bytes = memory_bytes
        self._source = open_source(self.path)
        self._pieces = Pieces(self._source)
        self._buffer = np.zeros(0, np.uint8)
        self._base = self._at = self._end = 0  # of the buffer: offset in the file, unread part
        self._frames = (Frame * FRAMES_AT_ONCE)()
        self._first = self._last = 0  # records found and not yet taken
        self.counts = np.zeros(COUNTS, np.int64)
        self.counts[LAST_NS] = np.iinfo(np.int64).min
        self._state = segments.State()
        self._table: ctypes.Array[Connection]
        self._slots: Array
        self._grow(FIRST_CONNECTIONS)
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        """Read the file's first bytes and determine its format."""
        self._read(pcap.FILE_HEADER_BYTES)
        head = self._buffer[self._at : self._end][: pcap.FILE_HEADER_BYTES].tobytes()
        if self._source.fault is not None and len(head) < pcap.FILE_HEADER_BYTES:
            raise Damaged(f"{self.path}: {self._source.fault}, before the capture begins")
        if not head:
            raise Damaged(
                f"{self.path} is empty. If tcpdump was stopped before it wrote anything, use its "
                "option -U, which writes each packet at once"
            )
        self._interfaces: ctypes.Array[pcap.Interface] | None = None
        if head.startswith(pcap.PCAPNG_MAGIC):
            self._form = pcap.Form()
            self._interfaces = (pcap.Interface * pcap.MAX_INTERFACES)()
            return
        if head.startswith(pcap.SNOOP_MAGIC):
            raise Damaged(
                f"{self.path} is a snoop file, which is not read. Allowed: pcap and pcapng files; "
                "editcap -F pcap FILE OUT converts it"
            )
        form = pcap.pcap_form(head)
        if form is None:
            raise Damaged(
                f"{self.path} is not a capture. Allowed: pcap and pcapng files, as tcpdump -w and "
                "dumpcap write them"
            )
        self._form = form
        self._at += pcap.FILE_HEADER_BYTES

    def _read(self, wanted: int) -> bool:
        """Provide at least `wanted` unread bytes in the buffer; False at the end of the file."""
        while self._end - self._at < wanted and not self._pieces.ended:
            begun = self._base + self._at
            self._buffer, self._at, self._end = self._pieces.after(
                self._buffer[self._at : self._end]
            )
            self._base = begun - self._at
        return self._end - self._at >= wanted

    def _walk(self) -> bool:
        """Find more records; False at the end of what can be read."""
        while True:
            self._form.wanted = 0
            given = (self._buffer, self._at, self._end, self._form)
            into = (self._frames, self.counts)
            if self._interfaces is None:
                count, at = pcap.walk_pcap(*given, *into)
            else:
                count, at = pcap.walk_pcapng(*given, self._interfaces, *into)
            if self.counts[DAMAGED]:
                self.counts[DAMAGED] += self._base
            self._at = at
            self._first, self._last = 0, count
            if count:
                return True
            if self.counts[DAMAGED]:
                return False
            if self._pieces.ended or not self._read(self._form.wanted):
                self._finish()
                return False

    def _finish(self) -> None:
        """Record how the file ended, if not with a whole record."""
        if self._source.fault is not None:
            self.counts[DAMAGED] = self._base + self._end + 1
        else:
            self.counts[CUT] = self._end - self._at

    def fill(self, columns: Columns) -> bool:
        """Fill columns from their row `rows` on; False if the file ended before they were full."""
        self._state.row = columns.rows
        while True:
            if self._first == self._last and (self.counts[DAMAGED] or not self._walk()):
                self.close()
                return False
            self._first = segments.rows(
                self._buffer,
                self._frames,
                self._first,
                self._last,
                self._base,
                self._state,
                self._table,
                self._slots,
                self.counts,
                columns,
            )
            columns.rows = self._state.row
            if columns.rows == columns.capacity:
                return True
            if self._state.connections == len(self._table):
                self._grow(4 * len(self._table))

    def _grow(self, capacity: int) -> None:
        """Make the tables of connections large enough for `capacity` of them."""
        if capacity > FIRST_CONNECTIONS:
            wanted = capacity * ctypes.sizeof(Connection) * 2
            self.must_fit(wanted, f"{capacity:,} connections")
        table, slots = (Connection * capacity)(), np.zeros(4 * capacity, np.int32)
        if count := self._state.connections:
            ctypes.memmove(table, self._table, count * ctypes.sizeof(Connection))
            tracking.enter_all(count, table, slots)
        self._table, self._slots = table, slots

    def must_fit(self, wanted_bytes: int, what: str, instead: str = IN_PIECES) -> None:
        """Raise Missing if `wanted_bytes` exceeds the available memory."""
        must_fit(wanted_bytes, f"{self.path}: {what}", instead, self._memory_bytes)

    def _free(self) -> int | None:
        return available_bytes() if self._memory_bytes is None else self._memory_bytes

    def expected_rows(self) -> int:
        """The number of rows, estimated from the first records; exact for a small file."""
        self._walk()
        records = self._last
        if self._pieces.ended:
            return records + SPARE_ROWS
        taken = (self._base + self._at) / (self._base + self._end)
        return int(1.05 * records / max(self._pieces.done * taken, 1e-9)) + SPARE_ROWS

    @property
    def connections(self) -> Array:
        """One row per connection, with the fields of a `Connection`."""
        return np.ctypeslib.as_array(self._table)[: self._state.connections]

    def close(self) -> None:
        self._pieces.close()


def read(path: str | Path, *, memory_bytes: int | None = None) -> pd.DataFrame:
    """The TCP segments of a capture as a table, one row each, in the file's order.

    time_ns        int64   since 1970, by the capture's clock
    connection     int32   the row of `connections`; tcp.stream in Wireshark
    direction      int8    0 from the client, 1 from the server
    seq, ack       uint32  as sent
    flags          uint16  nine bits: 1 FIN, 2 SYN, 4 RST, 8 PSH, 16 ACK, 32 URG, 64 ECE, 128 CWR,
                           256 NS
    window         uint16  as sent
    window_bytes   int32   scaled as the sender's SYN says (a SYN's own window is not); as sent if
                           one of the SYNs lacks that option; -1 if the sender's SYN was not
                           captured (Wireshark then shows it as sent, with scale factor -1)
    payload_bytes  int32   by the IP header, however much was captured
    seq_rel        int64   relative to the SYN, which is 0; if it is missing, the first segment is
    ack_rel        int64   1. They do not wrap at 4 GiB. ack_rel is 0 without ACK
    mss            uint16  the option of a SYN; 0 if missing
    tsval, tsecr   int64   -1 if the option is missing
    sack_blocks    uint8   0 to 4
    sack_left_1, sack_right_1 ... sack_left_4, sack_right_4
                   uint32  the edges as sent; 0 beyond sack_blocks
    ip_id          int32   the identification of IPv4, as sent; -1 for IPv6
    ttl            uint8   the time to live of IPv4, the hop limit of IPv6
    content        int8    what the payload begins with: 0 other or none, 1 a TLS handshake record,
                           2 TLS data, 3 an HTTP request, 4 an HTTP response
    frame          int64   the number of the packet in the file, from 1: frame.number in Wireshark
    offset         int64   of the record in the (uncompressed) file

    tshark's columns are the same, with four exceptions. It reassembles fragments; here the first
    one has a row. Its relative numbers wrap at 4 GiB. It shows a window of unknown scale as sent.
    It shows the captured part of an incomplete option; here such an option is not read.

    `memory_bytes` limits the memory of the table (default: what is available). Raises Missing if it
    needs more (use `batches` then), BadInput if it is not a file, Damaged if it is
    not a capture. `remarks` counts what else the file contains.
    """
    return read_columns(path, memory_bytes)[0].table()


@contextmanager
def opened(path: str | Path, memory_bytes: int | None, kind: type[Kind]) -> Iterator[Kind]:
    """A reader of the file, closed at the end; Missing if an allocation fails."""
    try:
        reader = kind(path, memory_bytes)
        try:
            yield reader
        finally:
            reader.close()
    except MemoryError:
        raise Missing(f"{path}: reading it needs more memory than is available") from None


def read_columns(path: str | Path, memory_bytes: int | None = None) -> tuple[Columns, Reader]:
    """The segments as arrays, and the reader, which has the connections and the counts.

    The length of the arrays is estimated from the first records; if they do not fit into the
    available memory, the rows are counted first.
    """
    with opened(path, memory_bytes, Reader) as reader:
        rows = reader.expected_rows()
        free = reader._free()
        if free is not None and rows * ROW_BYTES > free:
            exactly = int(whole(path, memory_bytes).counts[SEGMENTS])
            reader.must_fit(exactly * ROW_BYTES, f"{exactly:,} segments")
            rows = exactly + 1  # one more, because a full table may be incomplete
        columns = Columns(rows)
        while reader.fill(columns):
            capacity = columns.capacity + columns.capacity // 2
            reader.must_fit(capacity * ROW_BYTES, f"more than {columns.capacity:,} segments")
            columns = columns.grown(capacity)
    return columns, reader


def whole(path: str | Path, memory_bytes: int | None = None) -> Reader:
    """A reader that has read the whole file without keeping rows."""
    with opened(path, memory_bytes, Reader) as reader:
        columns = Columns(SCRATCH_ROWS)
        while reader.fill(columns):
            columns.rows = 0
    return reader


def batches(path: str | Path, *, rows: int) -> Iterator[pd.DataFrame]:
    """The table of `read` in batches of `rows` rows, which equal it when joined.

    Only one batch is in memory at a time, plus 330 bytes per connection. A capture without segments
    gives one empty batch.
    """
    if rows < 1:
        raise BadInput(f"rows={rows} is out of range. Allowed: a number above 0")
    with opened(path, None, Reader) as reader:
        more, given = True, 0
        while more:
            columns = Columns(rows)
            more = reader.fill(columns)
            if columns.rows or not given:
                yield columns.table()
            given += columns.rows


def connections(path: str | Path) -> pd.DataFrame:
    """The connections of a capture as a table, one row each, ordered by first segment.

    connection                     its number in `read`
    client, client_port            the end that opened the connection (the first SYN)
    server, server_port            the other end
    client_known_by                syn, syn-ack, or ports (neither was captured; the end with the
                                   lower port is assumed to be the server)
    first_ns, last_ns              its first and last segment
    handshake_rtt_ns               from the last SYN to the first ACK after the SYN-ACK; -1 if none
    ended                          fin: both ends sent one; reset; open: neither
    and for each end, with the prefix client_ or server_:
    mss, wscale, sack_permitted, timestamps
                                   the options of its SYN: -1 if the SYN was not captured; mss and
                                   wscale are also -1 if it lacks them, and wscale if the other
                                   end's SYN lacks it (nothing is scaled then); wscale at most 14
    segments, bytes                what it sent; bytes of payload, including retransmissions
    retransmissions                segments whose payload begins before the highest number that it
                                   has sent (including zero-window probes and keep-alives of one
                                   byte, which Wireshark distinguishes)
    """
    reader = whole(path)
    count = len(reader.connections)
    reader.must_fit(count * CONNECTION_BYTES, f"{count:,} connections", IN_PARTS)
    return tracking.connection_table(reader.connections)


def remarks(path: str | Path) -> Remarks:
    """What a capture contains besides TCP segments, and what could not be read."""
    return segment_table.remarks(whole(path).counts)
