"""RTTs at the place of the capture: the time to each ACK, and the distance to both ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy

from labs.read.capture.segment_table import ACK, RST, SYN
from labs.read.flows.connection_state import NOT_ONCE, ConnectionState, connection_state
from labs.read.native.compiled import Int8s, Int32s, Int64s, Uint16s, native

if TYPE_CHECKING:
    from pandas import DataFrame


def time_to_ack(segments: DataFrame) -> DataFrame:
    """One row per segment with new data: the time until the first ACK of its last byte.

    `segments` is a table of segments (`labs.capture.read`). Columns: `row` (its label there),
    `connection`, `direction` (0 from the client), `at_ns`, `payload_bytes`, `ms` (NaN if no ACK
    of it was captured), `acked_by` (the label of that ACK, or missing). Segments that were
    retransmitted, in part or joined with others, are omitted, because the ACK may be of either
    transmission (RFC 6298 3, Karn's algorithm). So is data with a SYN or a FIN, because the ACK may
    be of the flag.
    """
    from pandas import DataFrame, Series  # noqa: PLC0415  slow to load

    state = connection_state(segments)
    at = numpy.flatnonzero(state.acked_by > NOT_ONCE)
    at = at[numpy.lexsort((state.direction[at], state.connection[at]))]
    by = state.acked_by[at]
    table = DataFrame(
        {
            "row": state.rows[at],
            "connection": state.connection[at],
            "direction": state.direction[at].astype(numpy.int64),
            "at_ns": state.time_ns[at],
            "payload_bytes": state.length[at],
            "ms": numpy.where(by >= 0, (state.time_ns[by] - state.time_ns[at]) / 1e6, numpy.nan),
            "acked_by": Series(state.rows[by]).where(by >= 0).astype("Int64"),
        }
    )
    return table.sort_values("at_ns", kind="stable", ignore_index=True)


UNBOUNDED_NS: Final = 1 << 60
NEAR_NS: Final = 5_000_000
"""Below this the delay of an ACK, 40 ms and more, cannot be mistaken for distance."""


@dataclass(frozen=True)
class Distance:
    """The RTT of a connection and its two parts.

    `far_ns` are the times from the place of the capture to each end and back, almost zero for the
    end at which it was taken; [0] is the client. `rtt_ns` is their sum. Each is the shortest time
    that the capture shows: of the handshake, unless its SYN or SYN-ACK was repeated (Karn's
    algorithm), and of all ACKs of data that was sent once.

    If it is not measured, these are upper bounds: there is no such handshake, and an end
    acknowledged nothing of which it is certain that it did so at once. UNBOUNDED_NS without any.
    """

    rtt_ns: int
    far_ns: tuple[int, int]
    is_measured: bool = True

    @property
    def is_bounded(self) -> bool:
        return self.rtt_ns < UNBOUNDED_NS


NEXT_DOOR: Final = Distance(0, (0, 0))
SOON_NS: Final = 5_000_000
"""Within this time a host reacts at once."""


def distances(state: ConnectionState) -> list[Distance]:
    """Measure how far both ends of each connection are."""
    handshake, shortest = numpy.full((2, 2, len(state.starts) - 1), UNBOUNDED_NS)
    at_once = numpy.zeros_like(handshake)
    columns = (state.direction, state.flags, state.time_ns, state.end, state.ack, state.acked)
    of_acks = (state.mss_bytes, state.acked_by)
    _find_distances(state.starts, *columns, *of_acks, handshake, shortest, at_once)
    far = numpy.minimum(handshake, numpy.maximum(shortest, 0))
    # An end next door needs no proof: whatever the bound hides is too short to matter.
    is_certain = (handshake < UNBOUNDED_NS) | (at_once > 0) | (far <= NEAR_NS)
    return [
        Distance(min(client + server, UNBOUNDED_NS), (client, server), is_measured)
        for client, server, is_measured in zip(
            *far.tolist(), is_certain.all(axis=0).tolist(), strict=True
        )
    ]


@native
def _find_distances(
    starts: Int64s,
    direction: Int8s,
    flags: Uint16s,
    time_ns: Int64s,
    end: Int64s,
    ack: Int64s,
    acked: Int64s,
    mss_bytes: Int32s,
    acked_by: Int64s,
    handshake: Int64s,
    shortest: Int64s,
    at_once: Int64s,
) -> None:
    """Write for both ends of each connection the time of the handshake, the shortest time to an ACK
    of data, and whether an ACK was certainly sent at once.

    The first two arrays are filled with UNBOUNDED_NS, the third with zeros. An ACK of two full
    segments is certainly sent at once, when the newest of them arrives.
    """
    for number in range(len(starts) - 1):
        first, last = starts[number], starts[number + 1]
        _time_handshake(first, last, number, direction, flags, time_ns, handshake)
        for at in range(first, last):
            if acked_by[at] >= 0:
                to, spent = 1 - direction[at], time_ns[acked_by[at]] - time_ns[at]
                shortest[to, number] = min(shortest[to, number], spent)
        for at in range(first, last):
            by = acked_by[at]
            if by >= 0 and end[at] == ack[by]:
                to, spent = 1 - direction[at], time_ns[by] - time_ns[at]
                covered = ack[by] - acked[1 - to, by]
                if covered >= 2 * mss_bytes[by] and spent <= 2 * shortest[to, number] + NEAR_NS:
                    at_once[to, number] = 1


def _time_handshake(
    first: int,
    last: int,
    number: int,
    direction: Int8s,
    flags: Uint16s,
    time_ns: Int64s,
    handshake: Int64s,
) -> None:
    """Write both parts of the handshake. A part stays UNBOUNDED_NS if it is missing, or if its SYN
    or SYN-ACK was repeated: the answer may be to either (Karn's algorithm)."""
    asked, asks, answered, answers = -1, 0, -1, 0
    agreed = -1
    for at in range(first, last):
        kind = flags[at] & (SYN | ACK)
        if kind == SYN:
            asks += 1
            if asked < 0:
                asked = at
        elif kind == (SYN | ACK) and direction[at] == 1:
            answers += 1
            if answered < 0:
                answered = at
        elif answered >= 0 and agreed < 0 and kind == ACK and direction[at] == 0:
            agreed = -1 if flags[at] & RST else at
    if asked >= 0 and answered > asked and asks == 1:
        handshake[1, number] = max(0, time_ns[answered] - time_ns[asked])
    if agreed >= 0 and answers == 1:
        handshake[0, number] = max(0, time_ns[agreed] - time_ns[answered])


@dataclass(frozen=True)
class Spread:
    """Percentiles of the time to the ACK of data, in ms: times that were measured."""

    JSON: ClassVar = ("p10", "p50", "p90")
    p10: float
    p50: float
    p90: float


def spread_ms(state: ConnectionState, first: int, last: int) -> Spread | None:
    """The RTT of a connection as the senders of its data saw it, by the ACKs of data that was sent
    once; None without any."""
    by = state.acked_by[first:last]
    at = numpy.flatnonzero(by >= 0)
    times = numpy.maximum(0, state.time_ns[by[at]] - state.time_ns[at + first])
    if not len(at):
        return None
    return Spread(*(numpy.percentile(times, (10, 50, 90), method="inverted_cdf") / 1e6).tolist())
