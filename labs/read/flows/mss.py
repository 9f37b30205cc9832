"""How much a full segment of a connection holds, as its handshake says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy

if TYPE_CHECKING:
    from pandas import DataFrame

Array: TypeAlias = numpy.ndarray[Any, numpy.dtype[Any]]
USUAL_BYTES = 1448
"""What a segment holds on Ethernet, with timestamps: MTU 1500 less 52 bytes of headers."""
TIMESTAMPS_BYTES = 12
LEAST_BYTES = 48
"""TCP_MIN_SND_MSS: Linux sends no smaller ones, whatever the other side offers."""
LEAST_SEEN_BYTES = 536
FIN, SYN, PSH = 0x01, 0x02, 0x08


def mss_bytes(segments: DataFrame) -> Array:
    """For each row of a table of segments the payload in bytes of a full one on its connection.

    It is the smaller of what both SYNs offer, less 12 where both have timestamps. Where the
    capture does not have both offers, it is the smallest payload that comes again among segments
    that leave more of a write behind them (no PSH) and are no shorter than 536 bytes, for those
    are full; else 1448.
    Source: net/ipv4/tcp_output.c tcp_mtu_to_mss(), tcp_current_mss(); net/ipv4/tcp.c
    tcp_mark_push().
    """
    if segments.empty:
        return numpy.zeros(0, dtype=numpy.int32)
    connection = segments["connection"].to_numpy()
    found = _agreed(segments, connection)
    unknown = (found == 0)[connection]
    if unknown.any():
        _as_seen(segments, unknown, found)
    found[found == 0] = USUAL_BYTES
    full: Array = found[connection]
    return full


def _agreed(segments: DataFrame, connection: Array) -> Array:
    """By connection what the last SYNs of its sides agree on; 0 where they do not say."""
    syn = numpy.flatnonzero((segments["flags"].to_numpy() & SYN) != 0)
    side = segments["direction"].to_numpy()[syn], connection[syn]
    offered, stamped = numpy.zeros((2, 2, int(connection.max()) + 1), dtype=numpy.int32)
    offered[side] = segments["mss"].to_numpy()[syn]
    stamped[side] = segments["tsval"].to_numpy()[syn] >= 0
    both = offered.min(axis=0)
    full = numpy.maximum(both, LEAST_BYTES) - TIMESTAMPS_BYTES * stamped.min(axis=0)
    found: Array = numpy.where(both > 0, full, 0).astype(numpy.int32)
    return found


def _as_seen(segments: DataFrame, unknown: Array, found: Array) -> None:
    """Enter what the payloads of the connections in `unknown` show."""
    length = segments["payload_bytes"].to_numpy()
    whole = (segments["flags"].to_numpy() & (FIN | SYN | PSH)) == 0
    chosen = numpy.flatnonzero(unknown & whole & (length >= LEAST_SEEN_BYTES))
    sizes = segments["connection"].to_numpy()[chosen].astype(numpy.int64) << 32 | length[chosen]
    each, times = numpy.unique(sizes, return_counts=True)
    again = each[times > 1][::-1]  # of one connection the smallest is entered last
    found[again >> 32] = again & 0xFFFFFFFF
