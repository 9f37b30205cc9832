"""The gaps of a capture that a round trip explains, and that are therefore not stalls."""

from __future__ import annotations

from typing import Final

import numpy
from pandas import DataFrame

from labs.read.capture.segment_table import FIN, IN_PARTS, SYN, must_fit
from labs.read.flows.connection_state import ConnectionState
from labs.read.flows.rtt import distances
from labs.read.flows.stalls import MIN_GAP_MS

HANDSHAKE: Final = "handshake"
RESPONSE: Final = "request and response"
ACKS: Final = "sender waits for ACKs"
CLOSE: Final = "close"
ROW_BYTES: Final = 500
"""Memory per row while the table is made; measured."""
COLUMNS: Final = ("connection", "at_ns", "gap_ms", "before", "after", "what")


def round_trips(known: ConnectionState, *, min_gap_ms: float = MIN_GAP_MS) -> DataFrame:
    """One row per gap of at least `min_gap_ms` that lasts between half and all of the time that the
    end which ends it takes to answer, plus `min_gap_ms`; ordered by time.

    `connection`, `at_ns` (of the last segment before it), `gap_ms`, `before` and `after` (the
    labels of the rows around it), and `what` takes place: HANDSHAKE, RESPONSE, CLOSE, or ACKS: a
    sender has sent what its windows and its send buffer permit, or all it has, and the ACKs take a
    round trip. Connections of unknown RTT have none. Raises Missing if it takes more memory than is
    available.
    """
    far = distances(known)
    gaps = known.gaps_ns()
    away = numpy.where(known.direction == 0, far.far_ns[0], far.far_ns[1])
    least = numpy.maximum(min_gap_ms * 1e6, away / 2)
    chosen = far.measured & (gaps >= least) & (gaps < away + min_gap_ms * 1e6)
    places = numpy.flatnonzero(chosen).tolist()
    must_fit(len(places) * ROW_BYTES, f"{len(places):,} round trips", IN_PARTS)
    rows = [
        (
            int(known.connection[at]),
            int(known.time_ns[at - 1]),
            gaps[at] / 1e6,
            known.rows[at - 1],
            known.rows[at],
            _what(known, at),
        )
        for at in places
    ]
    found = DataFrame(rows, columns=list(COLUMNS))
    return found.sort_values("at_ns", kind="stable", ignore_index=True)


def _what(known: ConnectionState, at: int) -> str:
    flags = int(known.flags[at] | known.flags[at - 1])
    if flags & SYN:
        return HANDSHAKE
    if flags & FIN:
        return CLOSE
    asked = known.length[at - 1] and known.direction[at - 1] == 0 and known.direction[at] == 1
    return RESPONSE if asked else ACKS
