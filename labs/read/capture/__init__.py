"""Packet captures as tables.

    read(path)                   the TCP segments, one row each
    batches(path, rows=)         the same in parts, which equal it when joined
    connections(path)            one row per connection
    remarks(path)                counts of what else the file contains
    explain(path)                what the time of its connections was spent on
    packet(path, row)            one row, opened in scapy
    wireshark_flags(path, rows)  Wireshark's flags of some rows

Each is imported at first use. Files are pcap or pcapng, plain or compressed with gzip, xz or
zstd. zstd and parquet need the extra `capture` (pyarrow), scapy and Wireshark's flags the
extra `packets`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labs.read.capture.packets import packet, wireshark_flags
    from labs.read.capture.reader import batches, connections, read, remarks
    from labs.read.capture.segment_table import Remarks
    from labs.read.flows.explain import explain

__all__ = [
    "Remarks",
    "batches",
    "connections",
    "explain",
    "packet",
    "read",
    "remarks",
    "wireshark_flags",
]

_HOME = {
    "explain": "labs.read.flows.explain",
    "Remarks": "segment_table",
    "wireshark_flags": "packets",
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
