"""The waits of a capture: every gap of its connections that is long enough, with its reason, and
the stalls: the gaps in which nothing was sent for longer than the distance explains.

`labs.read.flows.rules` finds why, and who waited for whom.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import numpy

from labs.read.capture import tcp_marks as bits
from labs.read.capture.segment_table import IN_PARTS, Table, must_fit
from labs.read.flows.connection_state import ConnectionState, connection_state
from labs.read.flows.dialogue import Dialogue, Gap
from labs.read.flows.path import NO_FACTS, Facts
from labs.read.flows.reasons import NAMES, SENDING, Wait
from labs.read.flows.rtt import distances
from labs.read.flows.rules import gap_before, wait_instead

if TYPE_CHECKING:
    from pandas import DataFrame

LOOKED_AT_NS: Final = 4_000_000
"""Shorter gaps are not looked at one by one."""
MIN_GAP_MS: Final = 20.0
"""Half the shortest delay of an ACK."""
STALL_BYTES: Final = 1_000
"""Memory per row while `stalls` makes the table; measured."""
COPY_NS: Final = 50_000_000
"""A copy of a packet follows within this time; its identification and timestamp are the same."""
COPIES_SHARE: Final = 0.3
COPIED_FIELDS: Final = (
    "connection", "direction", "seq", "ack", "flags", "window", "payload_bytes",
    "tsval", "tsecr", "ip_id", "sack_left_1", "sack_right_1",
)  # fmt: skip
COLUMNS: Final = (
    "connection", "at_ns", "gap_ms", "wait_ms", "before", "after", "frame_before",
    "frame_after", "ended_by", "reason", "waiting", "waited_for", "rtt_ms",
)  # fmt: skip
BY_TIME: Final = itemgetter(COLUMNS.index("at_ns"))


@dataclass(frozen=True, eq=False)
class Waits:
    """The waits of all connections of a table of segments, without its `copies`."""

    state: ConnectionState
    connections: list[Dialogue]
    copies: int

    @cached_property
    def gaps(self) -> dict[int, Gap]:
        """By the place of the segment that ends them."""
        return {gap.place: gap for connection in self.connections for gap in connection.gaps}

    def is_stalled(self, place: int, min_gap_ns: float) -> bool:
        """Whether the gap before the segment contains a wait of that length."""
        gap = self.gaps.get(place)
        return gap is not None and gap.wait_ns >= min_gap_ns

    def why(self, place: int) -> Wait:
        """The reason for the gap before the segment at that place."""
        gap = self.gaps.get(place)
        if gap is None:
            return Wait(SENDING)
        return gap.wait if gap.wait_ns else gap.wait._replace(reason=gap.rest)


def explained_waits(segments: Table, errors: Mapping[int, Facts] | None = None) -> Waits:
    """The waits of a table of segments, whose packets that were captured twice count once.

    `errors` are facts of connections that no segment tells
    (`labs.read.flows.path.facts_of`). Accounts, stalls, exchanges, ladders and comments all
    begin here, so that they agree.
    """
    segments, copies = without_copies(segments)
    state, connections = connection_state(segments), []
    long = numpy.flatnonzero(state.gaps_ns() >= LOOKED_AT_NS)
    for (first, last), far in zip(state.edges, distances(state), strict=True):
        begin, end = numpy.searchsorted(long, (first, last))
        facts = (errors or {}).get(int(state.connection[first]), NO_FACTS)
        connections.append(Dialogue(state, far, first, last, facts))
        for place in long[begin:end].tolist():
            _look_at(connections[-1], place)
    return Waits(state, connections, copies)


def _look_at(dialogue: Dialogue, place: int) -> None:
    """Find the reason of the gap before that place."""
    gap = gap_before(dialogue, place)
    if gap is None:
        dialogue.undecided.append(place)
        return
    then = wait_instead(dialogue, gap)
    if then is not None:
        gap = replace(gap, instead=then.wait, is_sure=then.is_sure)
    dialogue.gaps.append(gap)


def without_copies(segments: Table) -> tuple[Table, int]:
    """The table without the second copy of packets that were captured twice, and their number.

    Copies have all fields in common, and follow within COPY_NS. They are removed only if they are a
    large share of the capture: a duplicate ACK may equal the one before it.
    """
    # Copies have one sequence and acknowledgement number: a file with few such has few copies.
    numbers = numpy.asarray(segments["seq"]).astype(numpy.uint64) << numpy.uint64(32)
    numbers |= numpy.asarray(segments["ack"]).astype(numpy.uint64)
    numbers.sort()
    if (numpy.diff(numbers) == 0).sum() < max(1, COPIES_SHARE * (len(numbers) - 1)):
        return segments, 0
    from pandas import DataFrame  # noqa: PLC0415  slow to load

    names = list(COPIED_FIELDS)
    packets = DataFrame({name: numpy.asarray(segments[name]) for name in (*names, "time_ns")})
    firsts = packets.groupby(names, sort=False)["time_ns"].transform("first")
    late_ns = (packets["time_ns"] - firsts).abs()
    copies = (packets.duplicated(names) & (late_ns <= COPY_NS)).to_numpy()
    if copies.mean() < COPIES_SHARE:
        return segments, 0
    return segments[~copies], int(copies.sum())


@dataclass(frozen=True, eq=False)
class Stalls:
    """The stalls of a table of segments, and the gaps that could not be decided."""

    rows: list[tuple[Any, ...]]  # by time, with COLUMNS
    rtt_unknown: int  # connections whose RTT is not measured
    undecided_ms: list[float]  # their gaps above the minimum that a round trip may explain
    acks_of_missing: int  # ACKs of bytes that the capture lacks

    @property
    def undecided(self) -> int:
        return len(self.undecided_ms)

    @property
    def longest_undecided_ms(self) -> float:
        return max(self.undecided_ms, default=0.0)

    @property
    def table(self) -> DataFrame:
        """As `stalls` returns it."""
        from pandas import DataFrame  # noqa: PLC0415  slow to load

        return DataFrame(self.rows, columns=list(COLUMNS))


def stalls(
    segments: DataFrame,
    *,
    min_gap_ms: float = MIN_GAP_MS,
    errors: Mapping[int, Facts] | None = None,
) -> DataFrame:
    """The stalls of a table of segments (`labs.capture.read`), one row each, ordered by time.

    Columns: `connection`, `at_ns` (of the last segment before it), `gap_ms`, `wait_ms` (the part
    that the distance does not explain), `before` and `after` (the labels of the rows around it),
    `frame_before` and `frame_after` (their numbers in the file, as Wireshark counts), `ended_by`,
    `reason` (see `labs.read.flows.reasons`), `waiting`, `waited_for`, `rtt_ms` (NaN if not
    measured). A stall is a gap of which `min_gap_ms` or more is a wait. `errors`: see
    `explained_waits`.
    """
    return find_stalls(explained_waits(segments, errors), min_gap_ms=min_gap_ms).table


def find_stalls(waits: Waits, *, min_gap_ms: float = MIN_GAP_MS) -> Stalls:
    """The same, with the number of connections of unknown RTT and of undecided gaps."""
    state, least_ns = waits.state, min_gap_ms * 1e6
    chosen = [
        (connection, gap)
        for connection in waits.connections
        for gap in connection.gaps
        if gap.wait_ns >= least_ns
    ]
    must_fit(len(chosen) * STALL_BYTES, f"{len(chosen):,} stalls", IN_PARTS)
    undecided = [place for connection in waits.connections for place in connection.undecided]
    gaps_ms = (state.gaps_ns()[undecided] / 1e6).tolist()
    return Stalls(
        sorted((_stall(state, *pair) for pair in chosen), key=BY_TIME),
        sum(not connection.far.is_measured for connection in waits.connections),
        [gap_ms for gap_ms in gaps_ms if gap_ms >= min_gap_ms],
        int(((state.marks & bits.ACK_LOST_SEGMENT) != 0).sum()),
    )


def _stall(state: ConnectionState, connection: Dialogue, gap: Gap) -> tuple[Any, ...]:
    at = gap.place
    return (
        connection.number,
        int(state.time_ns[at - 1]),
        gap.length_ns / 1e6,
        gap.wait_ns / 1e6,
        *state.rows[at - 1 : at + 1].tolist(),
        *state.frames(at),
        NAMES[state.direction[at]],
        gap.wait.reason.name,
        gap.wait.waiting,
        gap.wait.waited_for,
        connection.far.rtt_ns / 1e6 if connection.far.is_measured else float("nan"),
    )


def together(parts: Sequence[Stalls]) -> Stalls:
    """The stalls of all parts of a capture."""
    return Stalls(
        sorted((row for part in parts for row in part.rows), key=BY_TIME),
        sum(part.rtt_unknown for part in parts),
        [gap_ms for part in parts for gap_ms in part.undecided_ms],
        sum(part.acks_of_missing for part in parts),
    )
