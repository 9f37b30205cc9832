"""The capture room: packet captures as tables.

    read(path)            the TCP segments, a row each
    batches(path, rows=)  the same in pieces that joined equal it
    connections(path)     a row a connection
    remarks(path)         what the file held beside them, counted
    packet(path, row)     one row, opened in scapy
    opinion(path, rows)   what Wireshark says of some rows

Each is imported when it is first used. Files are pcap or pcapng, plain, gzip or zstd.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labs.read.capture.counts import Remarks
    from labs.read.capture.reader import batches, connections, read, remarks
    from labs.read.capture.scapy_packet import packet
    from labs.read.capture.wireshark import opinion

__all__ = ["Remarks", "batches", "connections", "opinion", "packet", "read", "remarks"]

_HOME = {
    "Remarks": "counts",
    "opinion": "wireshark",
    "packet": "scapy_packet",
    "batches": "reader",
    "connections": "reader",
    "read": "reader",
    "remarks": "reader",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
