"""Packet captures as tables.

    read(path)                     the TCP segments, one row each
    batches(path, rows=)           the same in parts, which equal it when joined
    connections(path)              one row per connection
    remarks(path)                  counts of what else the file contains
    explain(path)                  what the time of its connections was spent on
    packet(path, row)              one row, opened in scapy
    in_pyshark(path, frame)        the TCP header of one frame, opened in pyshark
    wireshark_flags(path, frames)  what Wireshark's analysis says of some frames

Each is imported at first use. Files are pcap or pcapng, plain or compressed with gzip, xz or
zstd. zstd and parquet need the extra `capture` (pyarrow), scapy and pyshark the extra `packets`.
Wireshark's analysis needs tshark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labs.read.capture.packets import in_pyshark, packet, wireshark_flags
    from labs.read.capture.reader import batches, connections, read, remarks
    from labs.read.capture.segment_table import Remarks
    from labs.read.flows.explain import explain

__all__ = [
    "Remarks",
    "batches",
    "connections",
    "explain",
    "in_pyshark",
    "packet",
    "read",
    "remarks",
    "wireshark_flags",
]

_HOME = {
    "explain": "labs.read.flows.explain",
    "Remarks": "segment_table",
    "wireshark_flags": "packets",
    "in_pyshark": "packets",
    "packet": "packets",
    "batches": "reader",
    "connections": "reader",
    "read": "reader",
    "remarks": "reader",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOME[name]
    return getattr(import_module(home if "." in home else f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
