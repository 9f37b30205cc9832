"""Stalls: the gaps of connections in which nothing was sent for longer than the distance explains.

Why, and who waited for whom, is what `labs.read.flows.waits` finds; `labs.read.flows.reasons` has
the reasons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import numpy

from labs.read.capture import tcp_marks as bits
from labs.read.capture.segment_table import IN_PARTS, must_fit
from labs.read.flows.reasons import NAMES
from labs.read.flows.verdict import explained_waits
from labs.read.flows.waits import Waits

if TYPE_CHECKING:
    from pandas import DataFrame

MIN_GAP_MS: Final = 20.0
"""Half the shortest delay of an ACK."""
STALL_BYTES: Final = 1_000
"""Memory per row while `stalls` makes the table; measured."""
COLUMNS: Final = (
    "connection",
    "at_ns",
    "gap_ms",
    "wait_ms",
    "before",
    "after",
    "frame_before",
    "frame_after",
    "ended_by",
    "reason",
    "waiting",
    "waited_for",
    "rtt_ms",
)
BY_TIME: Final = itemgetter(COLUMNS.index("at_ns"))


@dataclass(frozen=True, eq=False)
class Stalls:
    """The stalls of a table of segments, and the gaps that could not be decided."""

    rows: list[tuple[Any, ...]]  # by time, with COLUMNS
    rtt_unknown: int  # connections whose RTT is not measured
    undecided: int  # their gaps above the minimum that a round trip may explain
    longest_undecided_ms: float
    acks_of_missing: int  # ACKs of bytes that the capture lacks

    @property
    def table(self) -> DataFrame:
        """As `stalls` returns it."""
        from pandas import DataFrame  # noqa: PLC0415  slow to load

        return DataFrame(self.rows, columns=list(COLUMNS))


def stalls(
    segments: DataFrame, *, min_gap_ms: float = MIN_GAP_MS, errors: Mapping[int, str] | None = None
) -> DataFrame:
    """The stalls of a table of segments (`labs.capture.read`), one row each, ordered by time.

    Columns: `connection`, `at_ns` (of the last segment before it), `gap_ms`, `wait_ms` (the part
    that the distance does not explain), `before` and `after` (the labels of the rows around it),
    `frame_before` and `frame_after` (their numbers in the file, as Wireshark counts), `ended_by`,
    `reason` (see `labs.read.flows.reasons`), `waiting`, `waited_for`, `rtt_ms` (NaN if not
    measured). A stall is a gap of which `min_gap_ms` or more is a wait. `errors`: see
    `labs.read.flows.verdict.explained_waits`.
    """
    return find_stalls(explained_waits(segments, errors)[0], min_gap_ms=min_gap_ms).table


def find_stalls(waits: Waits, *, min_gap_ms: float = MIN_GAP_MS) -> Stalls:
    """The same, with the number of connections of unknown RTT and of undecided gaps."""
    state, far = waits.state, waits.far
    least_ns = min_gap_ms * 1e6
    chosen = [gap for gap in waits.gaps.values() if gap.wait_ns >= least_ns]
    must_fit(len(chosen) * STALL_BYTES, f"{len(chosen):,} stalls", IN_PARTS)
    places = numpy.array([gap.place for gap in chosen], dtype=numpy.int64)
    labels = zip(state.rows[places - 1].tolist(), state.rows[places].tolist(), strict=True)
    rows = [
        (
            int(state.connection[gap.place]),
            int(state.time_ns[gap.place - 1]),
            gap.length_ns / 1e6,
            gap.wait_ns / 1e6,
            *label,
            int(state.frame[gap.place - 1]),
            int(state.frame[gap.place]),
            NAMES[state.direction[gap.place]],
            gap.wait.reason,
            gap.wait.waiting,
            gap.wait.waited_for,
            float(far.rtt_ns[gap.place]) / 1e6 if far.measured[gap.place] else float("nan"),
        )
        for gap, label in zip(chosen, labels, strict=True)
    ]
    undecided = [
        float(state.time_ns[place] - state.time_ns[place - 1]) / 1e6 for place in waits.undecided
    ]
    undecided = [ms for ms in undecided if ms >= min_gap_ms]
    return Stalls(
        sorted(rows, key=BY_TIME),
        int((~far.measured[state.starts[:-1]]).sum()),
        len(undecided),
        max(undecided, default=0.0),
        int(((state.marks & bits.ACK_LOST_SEGMENT) != 0).sum()),
    )


def together(parts: Sequence[Stalls]) -> Stalls:
    """The stalls of all parts of a capture."""
    return Stalls(
        sorted((row for part in parts for row in part.rows), key=BY_TIME),
        sum(part.rtt_unknown for part in parts),
        sum(part.undecided for part in parts),
        max((part.longest_undecided_ms for part in parts), default=0.0),
        sum(part.acks_of_missing for part in parts),
    )
