"""How long a segment waits for its acknowledgment, at the place of the capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from labs.read.flows.connection_state import ACK, FIN, SYN, Array, Sides, sides

if TYPE_CHECKING:
    from pandas import DataFrame


def time_to_ack(segments: DataFrame) -> DataFrame:
    """A row a segment that carries new data: when the first ACK covers its last byte.

    `segments` is a table of segments (`labs.capture.read`). Columns: `row` (its label there),
    `connection`, `direction` (0 from the opener), `at_ns`, `payload_bytes`, `ms` (NaN if no ACK
    of it was captured), `acked_by` (the label of that ACK, or missing). Segments that were sent
    again, in part or joined with others, are left out: whose acknowledgment came is not known
    (RFC 6298 3, Karn's algorithm). So is data with a SYN or a FIN: it
    shares its acknowledgment with a number that is no data.
    """
    from pandas import DataFrame

    known = sides(segments)
    parts = [
        first_acks(known, int(first), int(last), side)
        for first, last in zip(known.starts[:-1], known.starts[1:], strict=True)
        for side in (0, 1)
    ]
    at = numpy.concatenate([part[0] for part in parts]) if parts else numpy.zeros(0, int)
    by = numpy.concatenate([part[1] for part in parts]) if parts else numpy.zeros(0, int)
    acked = by >= 0
    ms = numpy.full(len(at), numpy.nan)
    ms[acked] = (known.time_ns[by[acked]] - known.time_ns[at[acked]]) / 1e6
    found = DataFrame(
        {
            "row": known.rows[at],
            "connection": known.connection[at],
            "direction": known.direction[at],
            "at_ns": known.time_ns[at],
            "payload_bytes": known.length[at],
            "ms": ms,
        }
    )
    labels = DataFrame({"acked_by": known.rows[by]}).where(acked[:, None])
    found["acked_by"] = labels["acked_by"].astype("Int64")
    return found.sort_values("at_ns", kind="stable", ignore_index=True)


def first_acks(known: Sides, first: int, last: int, side: int) -> tuple[Array, Array]:
    """Of the connection between two places: the places of one side's new data, and of the first
    ACKs that cover them; -1 where there is none."""
    here = slice(first, last)
    own = (known.direction[here] == side) & (known.length[here] > 0)
    plain = (known.flags[here] & (SYN | FIN)) == 0
    new = numpy.flatnonzero(own & plain & (known.begin[here] >= known.sent[side][here]))
    end = known.end[here]
    new = new[
        ~_again(
            known.begin[here],
            end,
            new,
            numpy.flatnonzero(own & (known.begin[here] < known.sent[side][here])),
        )
    ]
    theirs = numpy.flatnonzero((known.direction[here] != side) & ((known.flags[here] & ACK) != 0))
    if not len(theirs):
        return new + first, numpy.full(len(new), -1)
    reach = numpy.maximum.accumulate(known.ack[here][theirs])
    which = numpy.searchsorted(reach, end[new], side="left")
    # An ACK that is in the file before the segment it covers was captured out of order.
    found = numpy.where(which < len(theirs), theirs[numpy.minimum(which, len(theirs) - 1)], -1)
    return new + first, numpy.where(found > new, found + first, -1)


def _again(begin: Array, end: Array, new: Array, again: Array) -> Array:
    """For each place of `new` whether a segment of `again` carries any of the same bytes.

    New data is in order and apart, so what a segment overlaps is a stretch of it.
    """
    first = numpy.searchsorted(end[new], begin[again], side="right")
    behind = numpy.searchsorted(begin[new], end[again], side="left")
    covers = numpy.zeros(len(new) + 1, dtype=numpy.int64)
    numpy.add.at(covers, first, 1)
    numpy.add.at(covers, numpy.maximum(first, behind), -1)
    found: Array = numpy.cumsum(covers[:-1]) > 0
    return found
