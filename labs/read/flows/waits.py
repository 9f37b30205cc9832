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

    known: ConnectionState
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
        at, by = first_acks(self.known, first, last, side)
        found: Array = (self.known.time_ns[by] - self.known.time_ns[at])[by >= 0]
        return found

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
    known: ConnectionState, *, errors: Mapping[int, str] | None = None, least_ns: int = LOOKED_AT_NS
) -> Waits:
    """Look at every gap of at least `least_ns`.

    `errors` are the connections to which an ICMP error answered, each with its reason.
    """
    errors = errors or {}
    far = distances(known)
    lengths = known.gaps_ns()
    found: dict[int, Gap] = {}
    undecided: list[int] = []
    losses: dict[int, list[Episode]] = {}
    limits: dict[int, list[Rounds]] = {}
    holes: dict[int, int] = {}
    long = numpy.flatnonzero(lengths >= least_ns)
    edges = numpy.searchsorted(long, known.starts)
    for number, (first, last) in enumerate(
        zip(known.starts[:-1].tolist(), known.starts[1:].tolist(), strict=True)
    ):
        connection = int(known.connection[first])
        one = ConnectionGaps(known, far, first, last, errors.get(connection, ""))
        losses[connection] = one.episodes
        limits[connection] = [own for own in one.bulk if own is not None]
        holes[connection] = one.hole_count
        for place in long[edges[number] : edges[number + 1]].tolist():
            gap = one.gap(place)
            if gap is None:
                undecided.append(place)
            elif gap.wait.waiting == NOBODY and one.ends_nothing(place, gap):
                then = one.instead_of(place)
                if then is not None:
                    gap = replace(gap, instead=then.wait, is_sure=then.is_sure)
                found[place] = gap
            else:
                found[place] = gap
    return Waits(known, far, found, losses, limits, frozenset(undecided), holes, errors)
