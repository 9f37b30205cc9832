"""The waits of a capture: every gap of its connections that is long enough, and its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy

from labs.read.flows.connection_gaps import ConnectionGaps, Gap
from labs.read.flows.connection_state import Array, ConnectionState
from labs.read.flows.limits import Rounds
from labs.read.flows.losses import Episode
from labs.read.flows.reasons import NOBODY, SENDING, Wait
from labs.read.flows.rtt import Distances, distances, first_acks

LOOKED_AT_NS: Final = 4_000_000
"""Shorter gaps are not looked at one by one."""


@dataclass(frozen=True, eq=False)
class Waits:
    """The gaps of all connections that were looked at, by place; losses and rounds by connection.

    `undecided` are gaps of unknown distance that may be no longer than a round trip.
    """

    state: ConnectionState
    far: Distances
    gaps: dict[int, Gap]
    episodes: dict[int, list[Episode]]
    rounds: dict[int, list[Rounds]]
    undecided: frozenset[int]
    holes: dict[int, int]  # by connection: how often packets are missing
    errors: Mapping[int, str]  # by connection: the reason that an ICMP error gives

    @cached_property
    def _places(self) -> Array:
        return numpy.fromiter(self.gaps, dtype=numpy.int64, count=len(self.gaps))

    def gaps_between(self, first: int, last: int) -> list[Gap]:
        """Those of the connection that has the places `first` to `last` - 1, in order."""
        begin, end = numpy.searchsorted(self._places, (first, last))
        return [self.gaps[place] for place in self._places[begin:end].tolist()]

    def ack_times_ns(self, first: int, last: int, side: int) -> Array:
        """How long each segment of that side, sent once, waited for its ACK."""
        at, by = first_acks(self.state, first, last, side)
        times_ns: Array = (self.state.time_ns[by] - self.state.time_ns[at])[by >= 0]
        return times_ns

    def is_stalled(self, place: int, min_gap_ns: float) -> bool:
        """Whether the gap before the segment contains a wait of that length."""
        gap = self.gaps.get(place)
        return gap is not None and gap.wait_ns >= min_gap_ns

    def why(self, place: int) -> Wait:
        """The reason for the gap before the segment at that place."""
        gap = self.gaps.get(place)
        if gap is None:
            return Wait(SENDING)
        return gap.wait if gap.wait_ns else Wait(gap.rest, gap.wait.waiting, gap.wait.waited_for)


def waits(
    state: ConnectionState, *, errors: Mapping[int, str] | None = None, least_ns: int = LOOKED_AT_NS
) -> Waits:
    """Look at every gap of at least `least_ns`.

    `errors` are the connections to which an ICMP error answered, each with its reason.
    """
    errors = errors or {}
    far = distances(state)
    lengths = state.gaps_ns()
    gaps: dict[int, Gap] = {}
    undecided: list[int] = []
    losses: dict[int, list[Episode]] = {}
    limits: dict[int, list[Rounds]] = {}
    holes: dict[int, int] = {}
    long = numpy.flatnonzero(lengths >= least_ns)
    edges = numpy.searchsorted(long, state.starts)
    for number, (first, last) in enumerate(
        zip(state.starts[:-1].tolist(), state.starts[1:].tolist(), strict=True)
    ):
        connection = int(state.connection[first])
        connection_gaps = ConnectionGaps(state, far, first, last, errors.get(connection, ""))
        losses[connection] = connection_gaps.episodes
        limits[connection] = [
            bulk_rounds for bulk_rounds in connection_gaps.bulk if bulk_rounds is not None
        ]
        holes[connection] = connection_gaps.hole_count
        for place in long[edges[number] : edges[number + 1]].tolist():
            gap = connection_gaps.gap(place)
            if gap is None:
                undecided.append(place)
            elif gap.wait.waiting == NOBODY and connection_gaps.ends_nothing(place, gap):
                then = connection_gaps.instead_of(place)
                if then is not None:
                    gap = replace(gap, instead=then.wait, is_sure=then.is_sure)
                gaps[place] = gap
            else:
                gaps[place] = gap
    return Waits(state, far, gaps, losses, limits, frozenset(undecided), holes, errors)
