"""What limits a bulk sender, per round trip: a window, a buffer, the path, or slow start.

All is seen as the sender saw it: an ACK that passes the place of the capture reaches the sender and
shows its effect there after the time from that place to the sender and back.
Source: the rounds follow Zhang et al., On the Characteristics and Origins of Internet Flow Rates
(SIGCOMM 2002); RFC 5681, RFC 9293 3.8.6.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy

from labs.read.capture.segment_table import ACK, CWR, ECE, SYN
from labs.read.flows import reasons as why
from labs.read.flows.connection_state import Array, ConnectionState
from labs.read.flows.reasons import Reason
from labs.read.flows.rtt import SOON_NS, Distance

BULK_SEGMENTS: Final = 10
"""A sender of less fits into its first congestion window (RFC 6928)."""
FIRST_SEGMENTS: Final = 10.5
IDLE_NS: Final = 200_000_000
IDLE_ROUNDS: Final = 3
"""After an idle RTO the congestion window begins anew (tcp_cwnd_restart, RFC 5681 4.1)."""
LEAST_ROUND_NS: Final = 1_000_000
GROWTH: Final = 1.25
"""Slow start doubles, or grows by half if every second segment is acknowledged."""
UNKNOWN_BYTES: Final = 1 << 40
QUEUED: Final = 1.2
ALIKE: Final = 0.15
LEADS: Final = 0.5
PLATEAU: Final = 3
"""Rounds in which the flight neither grows nor is reduced that show a limit other than the
congestion window, if nothing was lost. After a loss, cubic keeps its window for tens of rounds
(RFC 9438 4.4)."""
REDUCED: Final = 0.85
"""A reduced window is smaller: 0.7 with cubic, 0.5 with reno (RFC 9438 4.6, RFC 5681 3.1)."""
EVEN: Final = 0.3
"""The longest pause of a round as a share of it, below which segments come evenly."""
DEFERRED_SEGMENTS: Final = 3
"""After a round with a full window a sender may leave so much of it unused: it waits for room for a
larger packet (tcp_tso_should_defer)."""
BURST_SEGMENTS: Final = 8
LARGE_WINDOW: Final = 32_768
"""Without window scaling a window is at most 64 KB."""
OWN_ROUNDS: Final = 10
"""So many rounds that end at one size show a program's own window."""
OWN_SHARE: Final = 0.7
FED_BYTES: Final = 100
"""Messages that open a program's window are small."""
UNSURE: Final = (why.ROUND_TRIP, why.UNTOLD, why.SEND_BUFFER, why.SLOW_START)
PATH_SHARE: Final = 0.8
"""An even round fills the path from this share of the rate on that the path showed before."""


@dataclass(frozen=True, eq=False)
class Rounds:
    """The round trips of one sender in order, as arrays: times, what limited each, the most bytes
    in flight."""

    direction: int  # of the data: 0 if the client sends
    begin_ns: Array
    end_ns: Array
    reason: Array
    flight_bytes: Array
    window_bytes: Array
    is_even: Array

    def at(self, times_ns: Array) -> tuple[Array, Array]:
        """For each time the round that it is in, and whether it is in one."""
        which = numpy.searchsorted(self.begin_ns, times_ns, side="right") - 1
        inside: Array = (which >= 0) & (times_ns <= self.end_ns[which] + SOON_NS)
        return which, inside

    def limit_at(self, time_ns: int) -> Reason:
        """What limited the sender at that time; a round trip outside the rounds. As `at`, for one
        time, for which numpy is slow."""
        which = bisect_right(self.begin_ns.data, time_ns) - 1
        if which < 0 or time_ns > self.end_ns[which] + SOON_NS:
            return why.ROUND_TRIP
        limit: Reason = self.reason[which]
        return limit


def rounds(
    state: ConnectionState,
    far: Distance,
    sides: Sequence[Array],
    direction: int,
    lost: list[tuple[int, int]],
    *,
    lacks_scaling: bool = False,
) -> Rounds | None:
    """The rounds of one sender of a connection; None if it sends no bulk. `sides` are the places of
    the segments of each end, `lost` the times at which an episode of loss begins and ends."""
    data, heard = sides[direction], sides[1 - direction]
    data = data[(state.length[data] > 0) & ((state.flags[data] & SYN) == 0)]
    acks = heard[(state.flags[heard] & ACK) != 0]
    if not len(acks) or state.length[data].sum() < BULK_SEGMENTS * state.mss_bytes[heard[0]]:
        return None
    asked = heard[state.length[heard] > 0]
    asked_ns = state.time_ns[asked] + far.far_ns[direction]
    marks_ns = _marks_ns(state, far, direction, data, acks)
    sender = _Sender(state, far, direction, data, acks, asked_ns, lost, marks_ns)
    sender.lacks_scaling = lacks_scaling
    sender.is_fed = bool(numpy.median(state.length[asked]) <= FED_BYTES) if len(asked) else False
    return sender.rounds()


class _Sender:
    """One sender of bulk as it saw its connection: what each of its rounds shows, as arrays.

    A round ends when the ACK of its first segment reaches the sender.
    """

    def __init__(
        self,
        state: ConnectionState,
        far: Distance,
        direction: int,
        data: Array,
        acks: Array,
        asked_ns: Array,
        lost: list[tuple[int, int]],
        marks_ns: list[int],
    ) -> None:
        self.lacks_scaling = self.is_fed = False
        self.is_marked = bool(marks_ns) and not lost
        self.direction, self.rtt_ns, away_ns = direction, far.rtt_ns, far.far_ns[direction]
        self.early_ns = max(LEAST_ROUND_NS // 10, far.rtt_ns // 50)
        self.full = int(state.mss_bytes[data[0]])
        self.times, self.lengths = state.time_ns[data], state.length[data]
        heard_ns = numpy.maximum.accumulate(state.time_ns[acks] + away_ns)
        reach = numpy.maximum.accumulate(state.ack[acks])
        offered = numpy.where(state.offered[acks] >= 0, state.offered[acks], UNKNOWN_BYTES)
        sent = numpy.maximum.accumulate(state.end[data])
        # The ACKs that had reached the sender before each of its segments; a tie counts as heard.
        before = numpy.searchsorted(heard_ns, self.times + self.early_ns, side="right") - 1
        heard, has_heard = numpy.maximum(before, 0), before >= 0
        edge = (state.ack[acks] + offered)[heard]
        # The first ACK that covers each segment.
        answered = numpy.searchsorted(reach, sent, side="left")
        self.has_ack = answered < len(acks)
        self.acked_ns = numpy.where(
            self.has_ack,
            heard_ns[numpy.minimum(answered, len(acks) - 1)],
            self.times + max(self.rtt_ns, LEAST_ROUND_NS),
        )
        self._divide()
        self._see_times(asked_ns, _unheard_ns(state, data, acks) - away_ns)
        self._see_bytes(
            sent - numpy.where(has_heard, reach[heard], 0),
            numpy.where(has_heard, edge, UNKNOWN_BYTES) - sent,
            offered[heard],
        )
        lost = [*lost, *((at, at) for at in marks_ns)]
        self.is_lossy, self.losses = _losses(lost, self.begin_ns)

    def _divide(self) -> None:
        """Find the first and the last segment of each round, and when it begins and ends."""
        end_ns = numpy.maximum(self.acked_ns, self.times + LEAST_ROUND_NS)
        after = numpy.searchsorted(self.times, end_ns - self.early_ns)
        self.firsts = _chain(numpy.maximum(numpy.arange(1, len(after) + 1), after))
        self.lasts = numpy.append(self.firsts[1:], len(after)) - 1
        self.begin_ns, self.end_ns = self.times[self.firsts], end_ns[self.firsts]

    def _see_times(self, asked_ns: Array, unheard_ns: Array) -> None:
        """See whether the segments of each round come evenly, were in a queue (its RTT is longer
        than the shortest), came when the other end's data had, or after an idle time."""
        times, firsts, lasts = self.times, self.firsts, self.lasts
        spent = self.end_ns - self.begin_ns
        nexts = numpy.append(self.begin_ns[1:], self.end_ns[-1])
        pauses = numpy.diff(times, append=0)
        pauses[lasts] = numpy.minimum(nexts, self.end_ns) - times[lasts]
        pauses[-1] = -1  # of the last round the end shows nothing
        longest = numpy.maximum.reduceat(pauses, firsts)
        self.is_even = (lasts - firsts >= 2) & (longest < EVEN * spent)
        is_late = spent > QUEUED * self.rtt_ns + LEAST_ROUND_NS
        queued_ns = numpy.minimum.reduceat(unheard_ns, firsts)
        self.is_queued = self.has_ack[firsts] & is_late
        self.is_queued |= queued_ns > (QUEUED - 1) * self.rtt_ns + LEAST_ROUND_NS
        until, since = nexts + 1000, self.begin_ns + LEAST_ROUND_NS
        self.feeds = numpy.searchsorted(asked_ns, nexts) - numpy.searchsorted(
            asked_ns, self.begin_ns
        )
        self.is_asked = numpy.searchsorted(asked_ns, until) > numpy.searchsorted(asked_ns, since)
        idle_ns = times[firsts] - times[firsts - 1]
        self.is_idle = idle_ns > max(IDLE_NS, IDLE_ROUNDS * self.rtt_ns)
        self.is_idle[0] = False

    def _see_bytes(self, flight: Array, room: Array, offered: Array) -> None:
        """See what each round has in flight, at which rate, and whether the window was full."""
        firsts, lasts, full = self.firsts, self.lasts, self.full
        self.most = numpy.maximum.reduceat(flight, firsts)
        # In bytes per ns: what is in flight arrives in a round (Little's law).
        self.rate = flight[firsts] / (self.end_ns - self.begin_ns)
        self.burst = _burst_rates(self.times, self.lengths, firsts, lasts)
        self.window = numpy.minimum.reduceat(offered, firsts)
        self.is_whole = self.lengths[lasts] % full == 0
        least_room = numpy.minimum.reduceat(room, firsts)
        self.is_full = least_room < full
        deferred = (least_room < DEFERRED_SEGMENTS * full) & self.is_whole
        self.is_full[1:] |= deferred[1:] & self.is_full[:-1]

    def rounds(self) -> Rounds:
        """The rounds with what limited each, as the earlier ones show it."""
        saturated, path_rate = self._filled()
        is_even = self.is_even & ~saturated
        reason = self._limits(saturated)
        goes_on = self.is_whole | self.is_full
        goes_on[-1] = False
        held = saturated | (goes_on & (self.is_full | ~self.is_asked))
        reason[~held] = why.ROUND_TRIP
        by_sender = _is_any(reason, why.SEND_BUFFER, why.CONGESTION_WINDOW)
        # It may be the window, whose scale is unknown.
        reason[by_sender & (self.window >= UNKNOWN_BYTES)] = why.UNTOLD
        # Even rounds fill the path only if it showed that rate: where the RTT grew, or by
        # stretching two bursts of slow start alike. Pacing and a program that writes evenly look
        # the same as a full path, but pace no two such bursts alike, and no queue grows.
        shown = (PATH_SHARE * path_rate <= self.rate) & (path_rate > 0)
        reason[(reason == why.PATH) & is_even & ~shown] = why.UNTOLD
        reason[_leads(reason, self.most)] = why.SEND_BUFFER
        reason[self._own_window(reason)] = why.PROGRAM_WINDOW
        if self.lacks_scaling:
            reason[(reason == why.FULL_WINDOW) & (self.window > LARGE_WINDOW)] = why.NO_SCALING
        end_ns = self.end_ns.copy()
        if self.has_ack[-1]:
            end_ns[-1] = max(end_ns[-1], self.acked_ns[-1])
        order = numpy.argsort(self.begin_ns, kind="stable")  # a clock may step back
        columns = (self.begin_ns, end_ns, reason, self.most, self.window, is_even)
        return Rounds(self.direction, *(column[order] for column in columns))

    def _limits(self, saturated: Array) -> Array:
        """What limited each round, if the sender had more to send: the first rule that holds."""
        top = self._top
        grows = (self.most >= GROWTH * top) & (top > 0)
        next_grows = numpy.append(self.most[1:] >= GROWTH * self.most[:-1], False)
        next_grows[:-1] &= ~self.is_idle[1:]
        begins = grows | (self.most <= FIRST_SEGMENTS * self.full) | ((top == 0) & next_grows)
        flat = (self.most < top + 0.5 * self.full) & (self.most > REDUCED * top)
        flat &= (top > 0) & ~self.is_full
        place = numpy.arange(len(flat))
        # Rounds without a larger flight in a row, counted anew after an idle time.
        broken = numpy.where(flat, numpy.where(self.is_idle, place - 1, -1), place)
        flat_rounds = place - numpy.maximum.accumulate(broken)
        small = (self.most <= FIRST_SEGMENTS * self.full) & self._slow & ~self.is_full
        if (small & (flat_rounds >= OWN_ROUNDS)).any():  # less than any first window, for long
            begins &= ~small
            flat_rounds[small & (self.most > LEADS * top)] += PLATEAU
        rules = {
            why.SILLY_WINDOW: self.is_full & (self.window < self.full),
            why.FULL_WINDOW: self.is_full,
            why.PATH: saturated | (self.is_even & ~grows),
            why.SLOW_START: self._slow & begins,
            why.SEND_BUFFER: self._slow & (flat_rounds >= PLATEAU),
        }
        # Only a loss, or marks, explain a congestion window that is smaller than needed.
        reduced = why.ECN_MARKS if self.is_marked else why.CONGESTION_WINDOW
        reason: Array = numpy.full(len(flat), reduced)
        reason[self._slow] = why.UNTOLD
        for limit, holds in reversed(rules.items()):
            reason[holds] = limit
        return reason

    def _own_window(self, reason: Array) -> Array:
        """The rounds whose flight ends at one size far below the receiver's window, without any
        loss, and which data of the other end resumed."""
        none = numpy.zeros(len(reason), dtype=bool)
        size = float(numpy.percentile(self.most, 90))
        if not self.is_fed or not self._slow.all() or size < FIRST_SEGMENTS * self.full:
            return none
        near = (self.most <= (1 + ALIKE) * size) & (self.most > LEADS * size)
        near &= (self.window > QUEUED * size) & _is_any(reason, *UNSURE)
        alike = near & (self.most >= (1 - ALIKE) * size)
        is_own = alike.sum() >= OWN_ROUNDS and self.feeds[alike].mean() >= OWN_SHARE
        return near if is_own else none

    @cached_property
    def _fresh(self) -> Array:
        """Where the rounds begin, and begin anew after an idle time; and where they end."""
        fresh = numpy.flatnonzero(self.is_idle)
        return numpy.concatenate([[0], fresh, [len(self.begin_ns)]])

    @cached_property
    def _slow(self) -> Array:
        """Whether the sender is still in slow start since the beginning or the last idle time.
        Losses before the first round of all count; before an idle time they do not."""
        starts = self._fresh
        earlier = numpy.where(self.is_idle[starts[:-1]], self.losses[starts[:-1]], 0)
        ends = self.is_lossy | (self.losses > numpy.repeat(earlier, numpy.diff(starts)))
        slow: Array = _highest_so_far(ends.astype(numpy.int64), starts) == 0
        return slow

    @cached_property
    def _top(self) -> Array:
        """The most bytes in flight since then while in slow start, or in the previous round after
        that; 0 without an earlier round."""
        highest = _highest_so_far(numpy.maximum(self.most, 0), self._fresh)
        top = numpy.append(0, numpy.where(self._slow, highest, self.most)[:-1])
        top[self._fresh[:-1]] = 0
        return top

    def _filled(self) -> tuple[Array, float]:
        """The rounds in which the path is full, because its queue grows and its rate does not, and
        the highest rate that the path showed; 0 if none."""
        before = numpy.append(0.0, self.rate[:-1])
        before[self.is_idle] = 0.0
        saturated = self.is_even & self.is_queued & (self.rate < GROWTH * before)
        bursts = self.burst[~saturated & ~self.is_even & self._slow & (self.burst > 0)]
        alike = numpy.abs(numpy.diff(bursts, prepend=0.0)) <= ALIKE * bursts
        shown = numpy.concatenate([self.rate[saturated], bursts[alike]])
        return saturated, float(shown.max(initial=0.0))


def _unheard_ns(state: ConnectionState, data: Array, acks: Array) -> Array:
    """For each data segment how long before it the first ACK passed whose timestamp is newer than
    the one that it echoes; 0 if none. It was sent before that ACK arrived at its sender: what
    exceeds the time to the sender and back it spent in a queue (RFC 7323 4.3)."""
    stamps = numpy.maximum.accumulate(state.tsval[acks])
    echoed = state.tsecr[data]
    newer = numpy.searchsorted(stamps, echoed, side="right")
    has_newer = (newer < len(acks)) & (echoed >= numpy.maximum(stamps[0], 0))
    since = state.time_ns[acks[numpy.minimum(newer, len(acks) - 1)]]
    unheard_ns: Array = numpy.where(has_newer, numpy.maximum(state.time_ns[data] - since, 0), 0)
    return unheard_ns


def _marks_ns(
    state: ConnectionState, far: Distance, direction: int, data: Array, acks: Array
) -> list[int]:
    """When marks (ECN) or its own queue reduced the sender's congestion window: it says so with
    CWR, and hears of marks by ECE."""
    reduced = state.time_ns[data[(state.flags[data] & CWR) != 0]]
    marked = acks[(state.flags[acks] & (SYN | ECE)) == ECE]
    told = state.time_ns[marked] + far.far_ns[direction]
    times: list[int] = numpy.concatenate([reduced, told]).tolist()
    return times


def _losses(lost: list[tuple[int, int]], begins: Array) -> tuple[Array, Array]:
    """For each round whether it begins within an episode of loss, and how many began before it."""
    since, until = numpy.array(sorted(lost), dtype=numpy.int64).reshape(-1, 2).T
    until = numpy.maximum.accumulate(until)
    earlier = numpy.searchsorted(since, begins, side="right")
    within: Array = numpy.zeros(len(begins), dtype=bool)
    if len(since):
        within = (earlier > 0) & (until[numpy.maximum(earlier, 1) - 1] > begins)
    return within, numpy.searchsorted(since, begins)


def _highest_so_far(values: Array, starts: Array) -> Array:
    """The highest value so far in each part; parts begin at `starts`, whose last is the end."""
    parts = numpy.split(values, starts[1:-1])
    return numpy.concatenate([numpy.maximum.accumulate(part) for part in parts])


def _is_any(reason: Array, *wanted: Reason) -> Array:
    chosen: Array = numpy.array([each in wanted for each in reason], dtype=bool)
    return chosen


def _leads(reason: Array, flight: Array) -> Array:
    """Which rounds of a congestion window lead to a plateau, and are as limited as those that
    follow: slow start would have doubled them."""
    count, place = len(reason), numpy.arange(len(reason))

    def following(which: Array) -> Array:
        next_places: Array = numpy.minimum.accumulate(numpy.where(which, place, count)[::-1])[::-1]
        return next_places

    plateaus = reason == why.SEND_BUFFER
    after = following(plateaus)
    plateau = numpy.append(flight, 0)[after]
    near = (LEADS * plateau <= flight) & (flight <= (1 + ALIKE) * plateau) & (plateau != 0)
    leads: Array = _is_any(reason, why.CONGESTION_WINDOW, why.UNTOLD) & near
    return leads & (following(~leads & ~plateaus) > after)


def _burst_rates(times: Array, lengths: Array, firsts: Array, lasts: Array) -> Array:
    """For each round the rate in bytes per ns at which its segments followed each other, without
    the longest pause; 0 if they are too few."""
    rates = numpy.zeros(len(firsts))
    total = numpy.cumsum(lengths)
    for number in numpy.flatnonzero(lasts - firsts >= BURST_SEGMENTS).tolist():
        first, last = int(firsts[number]), int(lasts[number])
        steps = numpy.diff(times[first : last + 1])
        spent = int(steps.sum() - steps.max())
        carried = int(total[last] - total[first] - lengths[first + 1 + int(steps.argmax())])
        rates[number] = carried / spent if spent > 0 else 0.0
    return rates


def _chain(following: Array) -> Array:
    """The places 0, following[0], following[following[0]] and so on."""
    chain, places = [0], following.data
    while (at := places[chain[-1]]) < len(places):
        chain.append(at)
    return numpy.array(chain)
